//! Names of single cgroup directories: what a kubelet calls a pod's, and a runtime a container's.

/// Quality-of-service class, which decides the directory that a pod's lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Qos {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl Qos {
    /// The class of a directory between `kubepods` and the pods. Guaranteed pods have none.
    fn of_directory(name: &str) -> Option<Self> {
        match name {
            "burstable" => Some(Self::Burstable),
            "besteffort" => Some(Self::BestEffort),
            _ => None,
        }
    }
}

/// A directory name that would be a pod's in the right place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodName<'a> {
    pub uid: String,
    place: Place<'a>,
    /// Where pod and container share one directory, the container's part of its name.
    pub container: Option<ContainerName<'a>>,
}

/// Where a directory of this name is a pod's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place<'a> {
    /// `kubepods/pod<uid>` and `kubepods/<qos>/pod<uid>`: the cgroupfs driver's.
    Cgroupfs,
    /// The systemd driver's; the name without `-pod<uid>.slice`, which repeats those of all slices above.
    Slices(&'a str, Qos),
    /// `<slice>:<prefix>:<id>`: meant for systemd, made as it is by a runtime that does not use systemd,
    /// below the runtime's own cgroup, so the directories above tell nothing.
    Anywhere(Qos),
}

impl<'a> PodName<'a> {
    pub fn parse(name: &'a str) -> Option<Self> {
        if let Some((slice, rest)) = name.split_once(':') {
            let (slices, uid) = slice_uid(slice)?;
            let container = rest.rsplit_once(':').and_then(|(_, id)| ContainerName::parse(id))?;
            let place = Place::Anywhere(slices_qos(slices)?);
            return Some(Self { uid, place, container: Some(container) });
        }
        if let Some((slices, uid)) = slice_uid(name) {
            return Some(Self { uid, place: Place::Slices(slices, slices_qos(slices)?), container: None });
        }
        let uid = uid(name.strip_prefix("pod")?)?;
        Some(Self { uid, place: Place::Cgroupfs, container: None })
    }

    /// Whether the directories above, the nearest first, are those of a kubelet; if so the class, `None`
    /// where the path begins below what tells it. `cut`: the path's beginning is out of sight, so what is
    /// missing may be there.
    pub fn class(&self, mut above: impl Iterator<Item = &'a str>, cut: bool) -> Option<Option<Qos>> {
        match self.place {
            Place::Anywhere(qos) => Some(Some(qos)),
            Place::Slices(slices, qos) => {
                let mut slices = Some(slices);
                while let Some(slice) = slices {
                    match above.next() {
                        Some(name) if name.strip_suffix(".slice") == Some(slice) => {}
                        Some(_) => return None,
                        None => return cut.then_some(Some(qos)),
                    }
                    slices = slice.rsplit_once('-').map(|(above, _)| above);
                }
                Some(Some(qos))
            }
            Place::Cgroupfs => match above.next() {
                Some("kubepods") => Some(Some(Qos::Guaranteed)),
                Some(name) => {
                    let qos = Qos::of_directory(name)?;
                    match above.next() {
                        Some("kubepods") => Some(Some(qos)),
                        Some(_) => None,
                        None => cut.then_some(Some(qos)),
                    }
                }
                None => cut.then_some(None),
            },
        }
    }
}

/// Takes `<slices>-pod<uid>.slice` apart.
fn slice_uid(name: &str) -> Option<(&str, String)> {
    let name = name.strip_suffix(".slice")?;
    // A UID may have hyphens here, too, so its length tells where it begins.
    [36, 32].into_iter().find_map(|length| {
        let (head, tail) = name.split_at_checked(name.len().checked_sub(length)?)?;
        Some((head.strip_suffix("-pod")?, uid(tail)?))
    })
}

/// `[<root>-]kubepods[-<qos>]`: the kubelet's own slice or that of a class.
fn slices_qos(slices: &str) -> Option<Qos> {
    let last_of = |slices: &str| slices.rsplit('-').next() == Some("kubepods");
    if last_of(slices) {
        return Some(Qos::Guaranteed);
    }
    let (above, class) = slices.rsplit_once('-')?;
    let qos = Qos::of_directory(class)?;
    last_of(above).then_some(qos)
}

/// A pod's UID as the API writes it: a UUID, or the 32 hexadecimal digits of a static pod's hash
/// (pkg/kubelet/config/common.go).
fn uid(text: &str) -> Option<String> {
    let is_uid = match text.len() {
        32 => text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        36 => text.bytes().enumerate().all(|(index, byte)| match index {
            // systemd reads a hyphen as a level, so its driver writes underscores.
            8 | 13 | 18 | 23 => matches!(byte, b'-' | b'_'),
            _ => byte.is_ascii_hexdigit(),
        }),
        _ => false,
    };
    is_uid.then(|| text.replace('_', "-"))
}

/// The name of a directory that a runtime made for a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerName<'a> {
    /// The container's own, by its id: 64 hexadecimal digits.
    Container(&'a str),
    /// That of a process that looks after a container: conmon.
    Monitor,
}

impl<'a> ContainerName<'a> {
    /// `<id>`, `<runtime>-<id>`, `<runtime>-<id>.scope`; `None` for other names.
    pub fn parse(name: &'a str) -> Option<Self> {
        let name = name.strip_suffix(".scope").unwrap_or(name);
        let (runtime, id) = name.rsplit_once('-').unwrap_or(("", name));
        let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        // crio-conmon-<id>, libpod-conmon-<id>
        let monitor = runtime.rsplit('-').next() == Some("conmon");
        is_id.then_some(if monitor { Self::Monitor } else { Self::Container(id) })
    }

    /// The id, unless it is a monitor's.
    pub fn id(self) -> Option<&'a str> {
        match self {
            Self::Container(id) => Some(id),
            Self::Monitor => None,
        }
    }
}

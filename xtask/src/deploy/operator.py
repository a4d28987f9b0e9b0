"""Reads objects of the Prometheus operator as JSON lines on stdin, and prints for each what its own types do not take.

A field that the types do not know is dropped by them, so an object is read, written again and compared.
"""

import json
import sys

from cloudcoil.models.prometheus_operator import v1


def differences(given, taken, path):
    if isinstance(given, dict) and isinstance(taken, dict):
        for key in given.keys() | taken.keys():
            yield from differences(given.get(key), taken.get(key), f"{path}.{key}")
    elif isinstance(given, list) and isinstance(taken, list) and len(given) == len(taken):
        for number, (left, right) in enumerate(zip(given, taken)):
            yield from differences(left, right, f"{path}[{number}]")
    elif given != taken:
        yield f"{path}: {json.dumps(given)} is taken for {json.dumps(taken)}"


for line in sys.stdin:
    given = json.loads(line)
    name = f"{given['kind']} {given['metadata']['name']}"
    kind = getattr(v1, given["kind"], None)
    if kind is None:
        print(f"{name}: no such kind")
        continue
    try:
        read = kind.model_validate(given)
    except ValueError as error:
        print(f"{name}: {error}")
        continue
    taken = read.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    for difference in differences(given, taken, name):
        print(difference)

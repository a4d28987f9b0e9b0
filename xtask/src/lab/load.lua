-- For wrk: `wrk -s load.lua URL -- STOP keep|close`. One request after the other on each connection, with a pause between
-- them, until the file STOP is there; then each connection says "rests" when it has its last answer.

asked = -1 -- wrk asks once for the request before it sends any
answered = 0
threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init(args)
  stop = args[1]
  if args[2] == "close" then
    wrk.headers["Connection"] = "close"
  end
  text = wrk.format("GET", "/")
end

-- In milliseconds, before each request but a connection's first.
function delay()
  local file = io.open(stop)
  if not file then
    return 40
  end
  file:close()
  say("rests")
  return 3600000
end

function request()
  asked = asked + 1
  return text
end

function response(status)
  answered = answered + 1
  if status ~= 200 then
    say("status " .. status)
  end
end

function done(summary)
  local sums = { asked = 0, answered = 0 }
  for _, thread in ipairs(threads) do
    sums.asked = sums.asked + thread:get("asked")
    sums.answered = sums.answered + thread:get("answered")
  end
  say(string.format("done %d %d %d", sums.asked, sums.answered, summary.errors.connect))
end

function say(words)
  io.stdout:write(words, "\n")
  io.stdout:flush()
end

-- wrk: each connection asks again when its answer is there. Senders take turns.
-- Argument: a folder with the request in three pieces and a line "host key" for each sender.
local function read(path)
    local file = assert(io.open(path, "rb"))
    local text = file:read("*a")
    file:close()
    return text
end

local requests, turn = {}, 0

function init(arguments)
    local folder = arguments[1]
    local begin, middle, rest = read(folder .. "/1"), read(folder .. "/2"), read(folder .. "/3")
    for host, key in read(folder .. "/senders"):gmatch("(%S+) (%S+)\n") do
        requests[#requests + 1] = begin .. host .. middle .. key .. rest
    end
end

function request()
    turn = turn % #requests + 1
    return requests[turn]
end

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        '\n{"requests":%d,"seconds":%.6f,"bytes":%d,"refused":%d,"failed":%d,"p50_ms":%.3f,"p99_ms":%.3f}\n',
        summary.requests, summary.duration / 1e6, summary.bytes, errors.status,
        errors.connect + errors.read + errors.write + errors.timeout,
        latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end

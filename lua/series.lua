-- What the scripts share; put in front of each of them when it is loaded.
--
-- A ring is a hash. Its series are packed, big-endian, oldest entry first, and shift left as time
-- passes; each begins with its base, the second or minute of its newest entry:
--
--   seconds          base second, sum, oldest second that is not empty, requests in the running
--                    minute, then 61 counts of requests per second; all uint32
--   minutes          base minute (uint32), 60 x uint32   requests of minutes that ended
--   tokens:<minute>  integer                             tokens settled in the running minute,
--   running          integer                             which is this one
--   tokens           base minute (uint32), 60 x uint64   tokens of minutes that ended
--   estimated        base minute (uint32), 60 x uint64   which of all these nobody had reported
--   denied:<level>   base minute (uint32), 60 x uint32   requests denied by that level
--   open             base minute (uint32), 60 x uint32   requests forwarded without a decision
--
-- 61 seconds, because the trailing 60 s touch 61 clock seconds: the edge is counted in full, so
-- `sum` is never less than what was admitted in any trailing 60 s. A minute is added to its series
-- when the next one begins, so that most calls touch nothing but what decides.
--
-- A reservation is a member `<id>:<admitted ms>:<held tokens>` of the organization's in-flight set:
--   score > 0   open; the score is the end of its lease in Unix ms
--   score < 0   lapsed at -score, its hold released, its usage still awaited
-- `settled:<member>` (score < 0) remembers a settling that a late first attempt could repeat.

local HOUR_MS = 3600000
local RING_TTL_S = 3720
local ORG_TTL_S = 70 * 86400
local STEP_BACK_S = 60
local SECONDS, MINUTES = 61, 60

local floor, rep, sub = math.floor, string.rep, string.sub
local pack, unpack_at = struct.pack, struct.unpack

local now_ms = tonumber(ARGV[1])
if now_ms < 0 then
  local time = redis.call('TIME')
  now_ms = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
end
local now_s = floor(now_ms / 1000)
local healed, raised = 0, 0

-- The clock of a key never runs backwards: a small step back keeps counting where it was, a
-- larger one (false) means that the clock was wrong before, and the key starts again.
local function steady(base, now, tolerance)
  if now >= base then return now end
  return base - now <= tolerance and base
end

-- A series of minutes with `count` added to one of them. A minute before all of them means that the
-- clock was wrong, and the series starts again.
local function with_minute(packed, minute, count, size)
  local bytes, format = MINUTES * size, '>I' .. size
  local base, entries = minute, rep('\0', bytes)
  if packed and #packed == 4 + bytes then
    local was = unpack_at('>I4', packed)
    if was - minute < MINUTES then
      base = math.max(was, minute)
      entries = sub(packed, 5 + (base - was) * size)
      entries = entries .. rep('\0', bytes - #entries)
    end
  end
  local at = bytes - (base - minute) * size
  local sum = unpack_at(format, entries, at - size + 1) + count
  return pack('>I4', base) .. sub(entries, 1, at - size) .. pack(format, sum) .. sub(entries, at + 1)
end

-- A key of the wrong type is not ours: it reads as empty, and own() removes it before a write.
local function is_foreign(reply)
  if type(reply) ~= 'table' or not reply.err then return false end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then error(reply.err) end
  return true
end

local function read(key, ...)
  local reply = redis.pcall('HMGET', key, ...)
  if is_foreign(reply) then return {}, true end
  return reply, false
end

local function own(thing)
  if thing.foreign then
    redis.call('DEL', thing.key)
    thing.foreign = false
    healed = healed + 1
  end
end

local month_names = {}
local function month_name(ms) -- '2026-11'; days to a civil date by the usual era arithmetic
  local day = floor(ms / 86400000)
  local name = month_names[day]
  if name then return name end
  local z = day + 719468
  local era = floor(z / 146097)
  local doe = z - era * 146097
  local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))
  local mp = floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  name = string.format('%04d-%02d', yoe + era * 400 + (month <= 2 and 1 or 0), month)
  month_names[day] = name
  return name
end

-- What HINCRBY would take; anything else counts as 0, and starts again when it is written.
local function whole(text)
  return text and string.match(text, '^%-?%d+$') and #text <= 18 and tonumber(text) or 0
end

-- The month of an organization: tokens used and held, and since when this hash exists. A
-- reservation that is older than the hash has its hold in a hash that was lost.
local budgets = {}
local function budget(key, inflight_key)
  local b = budgets[key]
  if b then return b end
  local month = month_name(now_ms)
  local reply, foreign = read(key, month, month .. ':held', 'since')
  b = {
    key = key,
    foreign = foreign,
    inflight = { key = inflight_key },
    month = month,
    used = whole(reply[1]),
    held = whole(reply[2]),
    since = reply[3] and whole(reply[3]),
    org = false, opened = false, new_held = 0, reaped = false, ceiling = -1, -- of admit.lua
    closed = false, gone = false, marked = false, used_in = false, held_in = false, by_id = false, -- of commit.lua
  }
  budgets[key] = b
  return b
end

local function begin(b)
  own(b)
  if not b.since or b.since > now_ms then -- new, or the clock stepped back
    b.since = now_ms
    redis.call('HSET', b.key, 'since', now_ms)
    redis.call('EXPIRE', b.key, ORG_TTL_S)
  end
end

-- What was counted once is never less: Redis lost it, or came back with older data.
local function at_least(b, known, of_month)
  if of_month ~= b.month or known <= b.used then return end
  begin(b)
  redis.call('HSET', b.key, b.month, string.format('%.0f', known))
  b.used = known
  raised = raised + 1
end

-- A field that is no integer is not ours either: it starts again.
local function increase(thing, field, by)
  local reply = redis.pcall('HINCRBY', thing.key, field, by)
  if type(reply) == 'number' then return reply end
  if string.find(reply.err, 'integer', 1, true) then
    healed = healed + 1
  elseif is_foreign(reply) then
    thing.foreign = true
    own(thing)
  end
  redis.call('HSET', thing.key, field, math.max(by, 0))
  return by
end

local function release(b, admitted_ms, held)
  if held > 0 and b.since and admitted_ms >= b.since then
    local month = month_name(admitted_ms)
    increase(b, month .. ':held', -held)
    if month == b.month then b.held = b.held - held end
  end
end

local function parse(member)
  local admitted_ms, held = string.match(member, '^[^:]*:(%d+):(%d+)$')
  return tonumber(admitted_ms), tonumber(held)
end

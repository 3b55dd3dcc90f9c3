-- Add requests that no other script has counted to the minutes of their rings: those that were
-- denied, and those that were forwarded without a decision. They are for charts, nothing is decided
-- by them. Gateways gather them, because a denial counts nothing and an outage takes no writes.
--
-- KEYS  rings, each once
-- ARGV  1  now in Unix ms; -1 = Redis TIME
--       then for each count four:
--          index in KEYS of the ring, its series: denied:<level> | open,
--          minute since the Unix epoch, requests in it
-- Reply integers: now in Unix ms, keys healed
--
-- A minute that no ring shows any more is left out. One that is still to come is the running one:
-- it was named by a gateway, whose clock is ahead. A ring lives for an hour after its last count.

local FIELDS, FIRST = 4, 2

local now_minute = floor(now_s / 60)
local rings, ring_list = {}, {}

local function ring_at(index)
  local ring = rings[index]
  if not ring then
    ring = { key = KEYS[index], foreign = false, series = {} }
    rings[index] = ring
    ring_list[#ring_list + 1] = ring
  end
  return ring
end

-- A series of the ring: as stored, or as the counts before left it.
local function series_of(ring, field)
  if ring.series[field] then return ring.series[field] end
  local reply, foreign = read(ring.key, field)
  ring.foreign = foreign
  return reply[1]
end

for at = FIRST, #ARGV, FIELDS do
  local minute = math.min(tonumber(ARGV[at + 2]), now_minute)
  if now_minute - minute < MINUTES then
    local ring, field = ring_at(tonumber(ARGV[at])), ARGV[at + 1]
    ring.series[field] =
      with_minute(series_of(ring, field), minute, tonumber(ARGV[at + 3]), 4)
  end
end

for _, ring in ipairs(ring_list) do
  own(ring)
  for field, series in pairs(ring.series) do redis.call('HSET', ring.key, field, series) end
  redis.call('EXPIRE', ring.key, RING_TTL_S)
end
return { now_ms, healed }

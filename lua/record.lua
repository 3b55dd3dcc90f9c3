-- Add requests that were denied to the minutes of their rings: for charts, nothing is decided by
-- them. They are gathered by the gateway, because a denial itself writes nothing.
--
-- KEYS  rings, each once
-- ARGV  1  now in Unix ms; -1 = Redis TIME
--       then for each count four:
--          index in KEYS of the ring, level that denied: agent | org | global | tokens,
--          minute since the Unix epoch, requests denied in it
-- Reply integers: now in Unix ms, keys healed
--
-- A minute that no ring shows any more is left out. A ring lives for an hour after its last count.

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

-- The ring's series of that level: as stored, or as the counts before left it.
local function series_of(ring, field)
  if ring.series[field] then return ring.series[field] end
  local reply, foreign = read(ring.key, field)
  ring.foreign = foreign
  return reply[1]
end

for at = FIRST, #ARGV, FIELDS do
  local minute = tonumber(ARGV[at + 2])
  if now_minute - minute < MINUTES then
    local ring, field = ring_at(tonumber(ARGV[at])), 'denied:' .. ARGV[at + 1]
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

-- Read what many organizations and agents use now, so that they can be put in order. Writes nothing.
--
-- KEYS  rings, then hashes of month_tokens
-- ARGV  1  now in Unix ms; -1 = Redis TIME
--       2  how many of KEYS are rings
-- Reply now in Unix ms; the rings' `seconds` one after the other in one string, each as series.lua
--       packs it, zeros where there is none; then for each hash its tokens of this month, used and
--       held together

local RINGS = tonumber(ARGV[2])
local WIDTH = 16 + SECONDS * 4
local NONE = rep('\0', WIDTH)

local windows = {}
for i = 1, RINGS do
  local packed = read(KEYS[i], 'seconds')[1]
  windows[i] = packed and #packed == WIDTH and packed or NONE
end

local uses = { now_ms, table.concat(windows) }
local month = month_name(now_ms)
for i = RINGS + 1, #KEYS do
  local reply = read(KEYS[i], month, month .. ':held')
  uses[#uses + 1] = whole(reply[1]) + whole(reply[2])
end
return uses

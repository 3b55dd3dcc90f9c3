-- Settle a batch of reservations with the tokens really used: each counts once, in the month that
-- was pinned at its admission, never clamped and never refused.
--
-- KEYS  as in admit.lua
-- ARGV  1  now in Unix ms; -1 = Redis TIME
--       then for each settling five:
--          index in KEYS of the agent's ring, index of the organisation's ring
--          member of the in-flight set: `<id>:<admitted ms>:<held>`, or `<id>:0:0` where the request
--            was forwarded without a decision
--          tokens really used
--          1 = an earlier attempt may have been applied | 0 = surely not
-- Reply integers: now in Unix ms, keys healed, then for each settling: 1 counted | 0 was counted before

local FIELDS, FIRST = 5, 2

local rings, ring_list = {}, {}

local function ring_at(index)
  local ring = rings[index]
  if ring then return ring end
  ring = { key = KEYS[index], added = 0 }
  local reply
  reply, ring.foreign = read(ring.key, 'tokens')
  local minute, entries, new = floor(now_s / 60), rep('\0', MINUTES * 8), true
  local packed = reply[1]
  if packed and #packed == TOKENS_BYTES then
    local base = unpack_at('>I4', packed)
    local now = steady(base, minute, 1)
    if now then
      minute, new, entries = now, now > base, shift(sub(packed, 5), now - base, 8)
    end
  end
  ring.minute, ring.new_minute, ring.entries = minute, new, entries
  rings[index] = ring
  ring_list[#ring_list + 1] = ring
  return ring
end

-- The member's score (false: no member), or nil where this settling was counted before.
local function look_up(b, member, admitted_ms, is_retry)
  local inflight = b.inflight.key
  local score = redis.pcall('ZSCORE', inflight, member)
  if is_foreign(score) then
    b.inflight.foreign = true
    return false
  end
  if score then return tonumber(score) end
  if redis.call('ZSCORE', inflight, 'settled:' .. member) then return nil end
  if is_retry and b.since and admitted_ms >= b.since then return nil end
  return false
end

-- The tokens go in first: a Redis out of memory refuses that write, and with it the whole script.
local function settle(b, member, tokens, score, is_retry)
  local admitted_ms, held = parse(member)
  local marked = is_retry or not b.since or admitted_ms < b.since
  begin(b)
  if tokens > 0 then
    increase(b, month_name(admitted_ms > 0 and admitted_ms or now_ms), tokens)
  end
  if score and score > 0 then release(b, admitted_ms, held) end
  if marked then -- no member will tell a repetition of this settling apart
    own(b.inflight)
    redis.call('ZADD', b.inflight.key, -now_ms, 'settled:' .. member)
    redis.call('EXPIRE', b.inflight.key, ORG_TTL_S)
  end
  if score then redis.call('ZREM', b.inflight.key, member) end
end

local reply = { now_ms, 0 }
for at = FIRST, #ARGV, FIELDS do
  local org_index = tonumber(ARGV[at + 1])
  local member, tokens, is_retry = ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4] == '1'
  local b = budget(KEYS[org_index + 1], KEYS[org_index + 2])
  local score = look_up(b, member, (parse(member)), is_retry)
  if score ~= nil then
    settle(b, member, tokens, score, is_retry)
    if tokens > 0 then
      for _, index in ipairs({ tonumber(ARGV[at]), org_index, 1 }) do
        local ring = ring_at(index)
        ring.added = ring.added + tokens
      end
    end
  end
  reply[#reply + 1] = score ~= nil and 1 or 0
end

for _, ring in ipairs(ring_list) do
  own(ring)
  local in_minute = unpack_at('>I8', ring.entries, MINUTES * 8 - 7) + ring.added
  redis.call('HSET', ring.key,
    'tokens', pack('>I4', ring.minute) .. sub(ring.entries, 1, -9) .. pack('>I8', in_minute))
  if ring.new_minute then redis.call('EXPIRE', ring.key, RING_TTL_S) end
end
reply[2] = healed
return reply

-- Settle a batch of reservations with the tokens really used: each counts once, in the month that
-- was pinned at its admission, never clamped and never refused.
--
-- KEYS  as in admit.lua
-- ARGV  1  now in Unix ms; -1 = Redis TIME
--       2  the UTC month of which the gateway knows something, as 2026-11
--       then for each settling seven:
--          index in KEYS of the agent's ring, index of the organization's ring
--          member of the in-flight set: `<id>:<admitted ms>:<held>`, or `<id>:0:0` where the request
--            was forwarded without a decision; `<id>:?` (with 0 tokens) releases what an admission
--            holds whose reply got lost, if it was carried out
--          tokens really used
--          1 = they are an estimate, at least in part | 0 = they were reported
--          1 = an earlier attempt may have been applied | 0 = surely not
--          tokens that the organization has used in that month at least: a lower counter is raised
-- Reply integers: now in Unix ms, keys healed, months raised, then for each settling two:
--          1 counted or released | 0 was counted before, or nothing is held
--          tokens that its organization has used in the running month, this batch included

local KNOWN_MONTH = ARGV[2]
local FIELDS, FIRST = 7, 3

-- The member's score (false: no member), or nil where this settling was counted before.
local function look_up(b, member, admitted_ms, is_retry)
  if b.closed[member] then return nil end
  local score = redis.pcall('ZSCORE', b.inflight.key, member)
  if is_foreign(score) then
    b.inflight.foreign = true
    return false
  end
  if score then return tonumber(score) end
  if redis.call('ZSCORE', b.inflight.key, 'settled:' .. member) then return nil end
  if is_retry and b.since and admitted_ms >= b.since then return nil end
  return false
end

-- Note what this settling changes; write() carries it out.
local function settle(b, member, admitted_ms, held, tokens, score, is_retry)
  local month = month_name(admitted_ms > 0 and admitted_ms or now_ms)
  b.used_in[month] = (b.used_in[month] or 0) + tokens
  if score and score > 0 and b.since and admitted_ms >= b.since then
    b.held_in[month] = (b.held_in[month] or 0) + held
  end
  if score then b.gone[#b.gone + 1] = member end
  if is_retry or not b.since or admitted_ms < b.since then
    -- No member will tell a repetition of this settling apart.
    b.marked[#b.marked + 1] = -now_ms
    b.marked[#b.marked + 1] = 'settled:' .. member
  end
  b.closed[member] = true
end

-- The open member of a reservation of which only the id is known.
local function held_by(b, id)
  if not b.by_id then
    b.by_id = {}
    local members = redis.pcall('ZRANGEBYSCORE', b.inflight.key, '(0', '+inf')
    if is_foreign(members) then members = {} end
    for _, member in ipairs(members) do b.by_id[string.match(member, '^[^:]*')] = member end
  end
  return b.by_id[id]
end

local function release_lost(b, id)
  local member = held_by(b, id)
  local admitted_ms, held = parse(member or '')
  if not held or b.closed[member] then return false end
  if b.since and admitted_ms >= b.since then
    local month = month_name(admitted_ms)
    b.held_in[month] = (b.held_in[month] or 0) + held
  end
  b.gone[#b.gone + 1] = member
  b.closed[member] = true
  return true
end

-- The tokens go in first: a Redis out of memory refuses that write, and with it the whole script.
local function write(b)
  begin(b)
  for month, tokens in pairs(b.used_in) do
    if tokens > 0 then increase(b, month, tokens) end
  end
  for month, held in pairs(b.held_in) do
    if held > 0 then increase(b, month .. ':held', -held) end
  end
  if #b.marked > 0 then
    own(b.inflight)
    redis.call('ZADD', b.inflight.key, unpack(b.marked))
    redis.call('EXPIRE', b.inflight.key, ORG_TTL_S)
  end
  if #b.gone > 0 then redis.call('ZREM', b.inflight.key, unpack(b.gone)) end
end

-- Count tokens in a ring's running minute. When it is a new one, the last joins those that ended.
local function add(ring)
  local minute = floor(now_s / 60)
  if increase(ring, 'tokens:' .. minute, ring.added) > ring.added then return end
  local reply = redis.call('HMGET', ring.key, 'running', 'tokens')
  local last = whole(reply[1])
  if last > 0 and last ~= minute then
    local ended = 'tokens:' .. last
    local count = whole(redis.call('HGET', ring.key, ended))
    redis.call('HSET', ring.key, 'tokens', with_minute(reply[2], last, count, 8))
    redis.call('HDEL', ring.key, ended)
  end
  redis.call('HSET', ring.key, 'running', minute)
  redis.call('EXPIRE', ring.key, RING_TTL_S)
end

-- Count those of them that are an estimate. These are few, and packed at once.
local function flag(ring)
  local series = redis.call('HGET', ring.key, 'estimated')
  local minute = floor(now_s / 60)
  redis.call('HSET', ring.key, 'estimated', with_minute(series, minute, ring.estimated, 8))
end

local budget_list, rings, ring_list = {}, {}, {}

local function budget_at(index)
  local b = budget(KEYS[index + 1], KEYS[index + 2])
  if not b.closed then
    b.closed, b.gone, b.marked, b.used_in, b.held_in = {}, {}, {}, {}, {}
    budget_list[#budget_list + 1] = b
  end
  return b
end

local function ring_at(index)
  local ring = rings[index]
  if not ring then
    ring = { key = KEYS[index], added = 0, estimated = 0 }
    rings[index] = ring
    ring_list[#ring_list + 1] = ring
  end
  return ring
end

local function note(ring, tokens, estimated)
  ring.added, ring.estimated = ring.added + tokens, ring.estimated + estimated
end

local platform = ring_at(1)

-- Whether it counted.
local function count(at)
  local org_index = tonumber(ARGV[at + 1])
  local member, tokens = ARGV[at + 2], tonumber(ARGV[at + 3])
  local estimated, is_retry = ARGV[at + 4] == '1' and tokens or 0, ARGV[at + 5] == '1'
  local b = budget_at(org_index)
  at_least(b, tonumber(ARGV[at + 6]), KNOWN_MONTH)
  local lost = string.match(member, '^(.*):%?$')
  if lost then return release_lost(b, lost) end
  local admitted_ms, held = parse(member)
  local score = look_up(b, member, admitted_ms, is_retry)
  if score == nil then return false end
  settle(b, member, admitted_ms, held, tokens, score, is_retry)
  note(ring_at(tonumber(ARGV[at])), tokens, estimated)
  note(ring_at(org_index), tokens, estimated)
  note(platform, tokens, estimated)
  return true
end

local counted = {}
for at = FIRST, #ARGV, FIELDS do counted[#counted + 1] = count(at) and 1 or 0 end

for _, b in ipairs(budget_list) do
  if next(b.closed) then write(b) end
end
for _, ring in ipairs(ring_list) do
  if ring.added > 0 then add(ring) end
  if ring.estimated > 0 then flag(ring) end
end
local reply = { now_ms, healed, raised }
for i, one in ipairs(counted) do
  local b = budget_at(tonumber(ARGV[FIRST + (i - 1) * FIELDS + 1]))
  reply[#reply + 1], reply[#reply + 2] = one, b.used + (b.used_in[b.month] or 0)
end
return reply

-- Decide a batch of requests: for each, in order, read everything, check agent -> organization ->
-- platform -> tokens, and count it at every level or at none. A denial counts nothing; it may release
-- lapsed leases, and raise a month that is lower than the gateway knows.
--
-- KEYS  1                    the platform's ring
--       others, each once    an agent's ring; or an organization's ring, month_tokens and inflight,
--                            these three side by side
-- ARGV  1  now in Unix ms; -1 = Redis TIME
--       2  lease in ms
--       3  the UTC month of which the gateway knows something, as 2026-11
--       then for each request ten:
--          index in KEYS of the agent's ring, index of the organization's ring,
--          limits of agent, organization, platform (requests per 60 s), ceiling (tokens per month):
--            -1 = none, 0 = nothing passes
--          tokens that the request will use, tokens to hold on top where there is room,
--          reservation id,
--          tokens that the organization has used in that month at least: a lower counter is raised
-- Reply integers: now in Unix ms, keys healed, months raised, then for each request thirteen:
--          1 admitted | 0 denied
--          level that denied: 0 none, 1 agent, 2 organization, 3 platform, 4 tokens
--          requests in the trailing 60 s of agent, organization, platform
--          tokens used and held this month, tokens held by this request
--          ms until it would pass: 0 admitted; -1 = not by waiting within the month
--          ms until the agent's, the organization's window next frees a request (0: empty)
--          ms until the agent's, the organization's window is empty

local LEASE_MS = tonumber(ARGV[2])
local KNOWN_MONTH = ARGV[3]
local FIELDS, FIRST = 10, 4
local now_text = string.format(':%.0f:', now_ms)
local NEVER = math.huge
local HEAD = 16

local rings, ring_list, budget_list = {}, {}, {}

-- The ring as it was, moved on to now: an empty one where there was none, or none of ours. The table
-- is made at once, with all its fields: one that grows field by field costs more than the rest.
local function open(key)
  local reply, foreign = read(key, 'seconds')
  local second, sum, oldest, in_minute, past, current = now_s, 0, now_s, 0, nil, 0
  local rolled, new_minute, ended, in_ended, restarts = true, true, false, 0, false
  local packed = reply[1]
  if packed and #packed == HEAD + SECONDS * 4 then
    local base, was_sum, was_oldest, was_in_minute = unpack_at('>I4I4I4I4', packed)
    local steady_second = steady(base, now_s, STEP_BACK_S)
    if steady_second then
      local steps = steady_second - base
      second, rolled = steady_second, steps > 0
      new_minute = floor(second / 60) > floor(base / 60)
      if new_minute then
        ended, in_ended = floor(base / 60), was_in_minute
      else
        in_minute = was_in_minute
      end
      if steps == 0 then
        sum, oldest, past = was_sum, was_oldest, sub(packed, HEAD + 1, -5)
        current = unpack_at('>I4', packed, HEAD - 3 + SECONDS * 4)
      elseif steps < SECONDS then
        sum, oldest = was_sum, was_oldest
        for i = 1, steps do sum = sum - unpack_at('>I4', packed, HEAD - 3 + i * 4) end
        past = sub(packed, HEAD + 1 + steps * 4) .. rep('\0', steps * 4 - 4)
      end
    else
      restarts = true
    end
  end
  past = past or rep('\0', SECONDS * 4 - 4)
  if sum > 0 and oldest < second - SECONDS + 1 then
    oldest = second - SECONDS + 1 + floor((string.match(past, '^%z*()') - 1) / 4)
  end
  return {
    key = key, foreign = foreign, restarts = restarts, second = second, rolled = rolled,
    sum = sum, oldest = oldest, past = past, current = current, in_minute = in_minute,
    new_minute = new_minute, ended = ended, in_ended = in_ended, limit = -1, counted = false,
    budget = false,
  }
end

local function ring_at(index)
  local ring = rings[index]
  if ring then return ring end
  ring = open(KEYS[index])
  rings[index] = ring
  ring_list[#ring_list + 1] = ring
  return ring
end

local function count(ring)
  if ring.sum == 0 then ring.oldest = ring.second end
  ring.sum, ring.current, ring.in_minute = ring.sum + 1, ring.current + 1, ring.in_minute + 1
  ring.counted = true
end

-- Entry i of 61 is second `ring.second - 61 + i`; it leaves the window 61 s later.
local function leaves_in(ring, i) return (ring.second + i) * 1000 - now_ms end

local function frees_in(ring) -- until the oldest entry leaves
  if ring.sum == 0 then return 0 end
  return (ring.oldest + SECONDS) * 1000 - now_ms
end

local function empty_in(ring) -- until the newest entry leaves
  if ring.sum == 0 then return 0 end
  if ring.current > 0 then return leaves_in(ring, SECONDS) end
  local zeros = string.match(string.reverse(ring.past), '^%z*()') - 1
  return leaves_in(ring, SECONDS - 1 - floor(zeros / 4))
end

local function passes_in(ring) -- until there is room for one more
  if ring.limit == 0 then return NEVER end
  local to_free = ring.sum + 1 - ring.limit
  for i = 1, SECONDS - 1 do
    to_free = to_free - unpack_at('>I4', ring.past, i * 4 - 3)
    if to_free <= 0 then return leaves_in(ring, i) end
  end
  return leaves_in(ring, SECONDS)
end

-- Release the holds of leases that ended; forget what lapsed or was settled over an hour ago.
local function reap(b)
  b.reaped = true
  local key = b.inflight.key
  local lapsed = redis.pcall('ZRANGEBYSCORE', key, '(0', now_ms)
  if is_foreign(lapsed) then
    b.inflight.foreign, lapsed = true, {}
  end
  for _, member in ipairs(lapsed) do
    local admitted_ms, held = parse(member)
    if held then
      release(b, admitted_ms, held)
      redis.call('ZADD', key, -now_ms, member)
    else
      redis.call('ZREM', key, member)
      healed = healed + 1
    end
  end
  if b.held ~= b.new_held
    and (b.inflight.foreign or redis.call('ZCOUNT', key, '(0', '+inf') == 0) then
    -- Who held what is not known any more: nobody does.
    redis.call('HSET', b.key, b.month .. ':held', 0)
    b.held = b.new_held
    healed = healed + (b.inflight.foreign and 0 or 1) -- a foreign one is counted when it is replaced
  end
  if b.org.new_minute and not b.inflight.foreign then
    redis.call('ZREMRANGEBYSCORE', key, HOUR_MS - now_ms, '(0')
  end
end

local function lacks_tokens(b, needed)
  if b.ceiling < 0 or b.used + b.held + needed <= b.ceiling then return false end
  if not b.reaped then reap(b) end
  return b.used + b.held + needed > b.ceiling
end

-- The most specific level that has no room (0: none), and the ms until every level has room.
local levels = {}
local function check(b, needed)
  local denied_by, wait = 0, 0
  for level = #levels, 1, -1 do
    local ring = levels[level]
    if ring.limit >= 0 and ring.sum >= ring.limit then
      denied_by, wait = level, math.max(wait, passes_in(ring))
    end
  end
  if lacks_tokens(b, needed) then
    return denied_by > 0 and denied_by or #levels + 1, NEVER
  end
  return denied_by, wait
end

local function hold(b, needed, extra, id)
  local held = needed + extra
  if lacks_tokens(b, held) then held = math.max(needed, b.ceiling - b.used - b.held) end
  b.held = b.held + held
  b.new_held = b.new_held + held
  b.opened[#b.opened + 1] = now_ms + LEASE_MS
  b.opened[#b.opened + 1] = id .. now_text .. string.format('%.0f', held)
  return held
end

local function budget_of(org, org_index)
  local b = org.budget
  if not b then
    b = budget(KEYS[org_index + 1], KEYS[org_index + 2])
    b.org, b.opened, org.budget = org, {}, b
    budget_list[#budget_list + 1] = b
    if org.rolled then reap(b) end
  end
  return b
end

local reply = {}
local platform = ring_at(1)
for at = FIRST, #ARGV, FIELDS do
  local org_index = tonumber(ARGV[at + 1])
  local agent, org = ring_at(tonumber(ARGV[at])), ring_at(org_index)
  local b = budget_of(org, org_index)
  at_least(b, tonumber(ARGV[at + 9]), KNOWN_MONTH)
  levels[1], levels[2], levels[3] = agent, org, platform
  agent.limit, org.limit = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  platform.limit, b.ceiling = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local needed, extra = tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7])
  local denied_by, wait = check(b, math.max(needed, 1))
  local held = 0
  if denied_by == 0 then
    count(agent)
    count(org)
    count(platform)
    held = hold(b, needed, extra, ARGV[at + 8])
  end
  local n = #reply
  reply[n + 1], reply[n + 2] = denied_by == 0 and 1 or 0, denied_by
  reply[n + 3], reply[n + 4], reply[n + 5] = agent.sum, org.sum, platform.sum
  reply[n + 6], reply[n + 7], reply[n + 8] = b.used, b.held, held
  reply[n + 9] = wait == NEVER and -1 or wait
  reply[n + 10], reply[n + 11] = frees_in(agent), frees_in(org)
  reply[n + 12], reply[n + 13] = empty_in(agent), empty_in(org)
end

local function store(ring)
  own(ring)
  if ring.restarts then redis.call('DEL', ring.key) end
  redis.call('HSET', ring.key, 'seconds',
    pack('>I4I4I4I4', ring.second, ring.sum, ring.oldest, ring.in_minute)
      .. ring.past .. pack('>I4', ring.current))
  if ring.new_minute then
    if ring.in_ended > 0 then
      local minutes = redis.call('HGET', ring.key, 'minutes')
      redis.call('HSET', ring.key, 'minutes', with_minute(minutes, ring.ended, ring.in_ended, 4))
    end
    redis.call('EXPIRE', ring.key, RING_TTL_S)
  end
end

-- All checks are done: write each ring and each month once.
for _, ring in ipairs(ring_list) do
  if ring.counted then store(ring) end
end
for _, b in ipairs(budget_list) do
  if #b.opened > 0 then
    begin(b)
    if b.new_held > 0 then increase(b, b.month .. ':held', b.new_held) end
    if is_foreign(redis.pcall('ZADD', b.inflight.key, unpack(b.opened))) then
      b.inflight.foreign = true
      own(b.inflight)
      redis.call('ZADD', b.inflight.key, unpack(b.opened))
    end
    redis.call('EXPIRE', b.inflight.key, ORG_TTL_S)
    if b.org.new_minute then redis.call('EXPIRE', b.key, ORG_TTL_S) end
  end
end
table.insert(reply, 1, now_ms)
table.insert(reply, 2, healed)
table.insert(reply, 3, raised)
return reply

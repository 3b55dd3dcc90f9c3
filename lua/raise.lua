-- Raise months that count less than a gateway knows to be used: Redis lost them, or came back with
-- older data. The other scripts do the same for whom they decide and settle; this is for the others.
--
-- KEYS  hashes of month_tokens
-- ARGV  1  now in Unix ms; -1 = Redis TIME
--       2  the UTC month of which the gateway knows something, as 2026-11
--       then for each hash: tokens used in that month at least
-- Reply integers: now in Unix ms, keys healed, months raised

for i, key in ipairs(KEYS) do at_least(budget(key, false), tonumber(ARGV[i + 2]), ARGV[2]) end
return { now_ms, healed, raised }

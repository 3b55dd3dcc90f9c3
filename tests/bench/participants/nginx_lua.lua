-- Counts the caller's requests of the minute in Redis; 429 beyond the limit.
local redis = require("nginx.redis")

local COUNT = [[
local used = redis.call('INCR', KEYS[1])
if used == 1 then redis.call('PEXPIRE', KEYS[1], 60000) end
return used
]]
local sha

return function(port, password, requests_per_minute)
    local client = redis:new()
    client:set_timeout(5000)
    assert(client:connect("127.0.0.1", port))
    if client:get_reused_times() == 0 then
        assert(client:auth(password))
    end
    sha = sha or assert(client:script("LOAD", COUNT))
    local key = "nginx:" .. (ngx.var.http_authorization or "")
    local used = assert(client:evalsha(sha, 1, key))
    client:set_keepalive(3600000, 1024)
    if used > requests_per_minute then
        ngx.status = 429
        ngx.say('{"error":{"message":"rate limit","type":"requests"}}')
        return ngx.exit(429)
    end
end

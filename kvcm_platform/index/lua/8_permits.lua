-- Fairness limits of a group (core/admission.py). Base key {g:<number>}; the limits are those of its publication:
--   base .. ':l' calls, blocks (a second), sessions (share of an instance's); a field that is absent limits nothing
--   base .. ':t' the token buckets: calls, blocks (level, below zero when in debt), at (us of the last refill)
--   base .. ':s' open write sessions by deadline (ms)

local BURST_SECONDS = 0.1    -- what a bucket holds
local BATCH_SECONDS = 0.02   -- what a process draws at a time beyond its need

local function now_us()
  local t = call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- kvcm_permits: draws for one call. ARGV: blocks of the call, calls and blocks that the process gives back unused.
-- Returns {1, calls, blocks} drawn (-1 = no limit), the call's own among them; or {0, limit's name, its value,
-- ms until a batch is there}, nothing drawn. A call may ask for more blocks than the bucket holds: it passes while
-- there is at least one, and the debt is paid before the next.
register('kvcm_permits', function(keys, args)
  local base = keys[1]
  local limits = call('HMGET', base .. ':l', 'calls', 'blocks')
  local known = call('HMGET', base .. ':t', 'calls', 'blocks', 'at')
  local now = now_us()
  local elapsed = math.max(0, now - tonumber(known[3] or now)) / 1000000
  local needs, gives = {1, tonumber(args[1])}, {tonumber(args[2]), tonumber(args[3])}
  local levels, grants, refused = {}, {}, nil
  for i, name in ipairs({'calls', 'blocks'}) do
    local rate = tonumber(limits[i] or '0')
    if rate > 0 then
      local burst = math.max(1, rate * BURST_SECONDS)
      local level = known[i] and math.min(burst, tonumber(known[i]) + gives[i] + rate * elapsed) or burst
      local batch = math.max(1, math.floor(rate * BATCH_SECONDS))
      if level < 1 and needs[i] > 0 and not refused then
        refused = {0, name, limits[i], math.ceil((math.min(batch, burst) - level) / rate * 1000)}
      end
      grants[i] = math.max(needs[i], math.min(batch, math.floor(level)))
      levels[i] = level
    else
      grants[i] = -1
    end
  end
  local sets = {'at', string.format('%.0f', now)}
  for i, name in ipairs({'calls', 'blocks'}) do
    if levels[i] then
      insert(sets, name)
      insert(sets, string.format('%.6f', refused and levels[i] or levels[i] - grants[i]))
    end
  end
  call('HSET', base .. ':t', unpack(sets))
  return refused or {1, grants[1], grants[2]}
end)

-- kvcm_session_enter: ARGV: sid, deadline ms, most open sessions of an instance. Returns {1}, or {0, most of the group}.
register('kvcm_session_enter', function(keys, args)
  local ratio = tonumber(call('HGET', keys[1] .. ':l', 'sessions') or '0')
  if ratio <= 0 then return {1} end
  local open = keys[1] .. ':s'
  call('ZREMRANGEBYSCORE', open, '-inf', '(' .. string.format('%.0f', now_ms()))
  local most = math.max(1, math.floor(ratio * tonumber(args[3])))
  if call('ZCARD', open) >= most then return {0, most} end
  call('ZADD', open, args[2], args[1])
  return {1}
end)

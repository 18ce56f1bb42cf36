-- The lives of the index (index/life.py). Base {kvcm}:generation, a hash:
--   number, server (identities of the masters), before (those of the life before), state ('?' | 'ok' | 'doubt'),
--   doubt (shards last checked before that life are in doubt) and slots (of which slots; '' = all)

-- kvcm_generation: the number of the present life. ARGV: identity of its servers.
-- A new life's number is at least the time of its beginning in ms: data that was rolled back cannot bring a
-- number again that some process still has. The very first life has nothing to lose.
-- Returns {number, state, before, doubt, slots}.
register('kvcm_generation', function(keys, args)
  local base = keys[1]
  local number, before = tonumber(call('HGET', base, 'number') or '0'), call('HGET', base, 'server')
  if before ~= args[1] then
    number = math.max(number + 1, now_ms())
    call('HSET', base, 'server', args[1], 'number', string.format('%d', number), 'before', before or '',
      'state', before and '?' or 'ok')
  end
  local known = call('HMGET', base, 'state', 'before', 'doubt', 'slots')
  return {number, known[1] or 'ok', known[2] or '', known[3] or '', known[4] or ''}
end)

-- kvcm_judged: what is to be thought of a life that nobody judged before. ARGV: number, 'ok' | 'doubt', slots.
-- Shards that an earlier doubt left unchecked stay in doubt. Returns {state, doubt, slots}.
register('kvcm_judged', function(keys, args)
  local base = keys[1]
  if call('HGET', base, 'number') == args[1] and call('HGET', base, 'state') == '?' then
    call('HSET', base, 'state', args[2])
    if args[2] == 'doubt' then
      local slots = args[3]
      if call('HEXISTS', base, 'doubt') == 1 then
        local old = call('HGET', base, 'slots')
        slots = (old == '' or slots == '') and '' or old .. ',' .. slots
      end
      call('HSET', base, 'doubt', args[1], 'slots', slots)
    end
  end
  local known = call('HMGET', base, 'state', 'doubt', 'slots')
  return {known[1] or 'ok', known[2] or '', known[3] or ''}
end)

-- kvcm_alive: stamps a key with the server's clock. Returns the stamp.
register('kvcm_alive', function(keys)
  local now = string.format('%d', now_ms())
  call('SET', keys[1], now)
  return now
end)

-- kvcm_checked: a shard's objects were looked at. ARGV: gen, life that the doubt began with.
register('kvcm_checked', function(keys, args)
  local refused = enter(keys[1], args[1])
  if refused then return refused end
  call('HSET', keys[1], 'checked', args[2])
  return 1
end)

-- kvcm_doubt_end: every shard was checked. ARGV: life that the doubt began with. Base {kvcm}:generation.
register('kvcm_doubt_end', function(keys, args)
  if call('HGET', keys[1], 'doubt') ~= args[1] then return 0 end
  return call('HDEL', keys[1], 'doubt', 'slots')
end)

-- The MetaIndex in Redis (index/meta_index). Its records lie in one or several hash tags, `shards`:
--   {mi:<name>:<shard>}  'bytes' of keys and records, 'seq' of changes; '<reservation>' -> '1' once used
--   .. ':b'              8-byte key -> record
-- With several shards the number of records is limited in a tag of its own:
--   {mi:<name>}          'shards' the number of them; base .. ':s' shard -> '<generation> <seq> <records>'
--   .. ':r'              '<reservation>|<shard>' -> '<records> <use-by ms>'
-- Allowed = sum of the counts last pushed + sum of the open reservations, so the limit is never passed; a push
-- carries its (generation, seq) and may be repeated by anyone.

-- kvcm_meta_write: one batch. ARGV: records that may be there afterwards (one shard alone) or records that may be
-- added (with a reservation); reservation or ''; its use-by time; then (key, condition, expected, operation, record):
--   condition 'a' anything, 's' some record, 'n' none, 'x' the expected one; operation 'p' put, 'd' delete.
-- Returns one letter a write: c created, r replaced, d deleted, m missing, x not what was expected;
-- or 'FULL' / 'LATE', nothing changed.
register('kvcm_meta_write', function(keys, args)
  local base, blocks = keys[1], keys[1] .. ':b'
  local limit, reservation = tonumber(args[1]), args[2]
  if reservation ~= '' and now_ms() > tonumber(args[3]) then return 'LATE' end
  local distinct, held = {}, {}
  for i = 4, #args, 5 do
    if held[args[i]] == nil then
      distinct[#distinct + 1] = args[i]
      held[args[i]] = false
    end
  end
  for i, record in ipairs(call('HMGET', blocks, unpack(distinct))) do held[distinct[i]] = record end

  local after, reply = {}, {}
  for i = 4, #args, 5 do
    local key, condition, expected, is_put, record = args[i], args[i + 1], args[i + 2], args[i + 3] == 'p', args[i + 4]
    local now = after[key]
    if now == nil then now = held[key] end
    local letter
    if condition == 's' and not now then
      letter = 'm'
    elseif (condition == 'n' and now) or (condition == 'x' and now ~= expected) then
      letter = 'x'
    elseif is_put then
      letter = now and 'r' or 'c'
      after[key] = record
    else
      letter = now and 'd' or 'm'
      after[key] = false
    end
    reply[#reply + 1] = letter
  end

  local growth, bytes, sets, dels = 0, 0, {}, {}
  for key, record in pairs(after) do
    local before = held[key]
    if record then
      sets[#sets + 1] = key
      sets[#sets + 1] = record
    elseif before then
      dels[#dels + 1] = key
    end
    if record and not before then growth = growth + 1 end
    if before and not record then growth = growth - 1 end
    bytes = bytes + (record and #record + 8 or 0) - (before and #before + 8 or 0)
  end
  if growth > 0 and growth + (reservation == '' and call('HLEN', blocks) or 0) > limit then return 'FULL' end
  if #sets > 0 then call('HSET', blocks, unpack(sets)) end
  if #dels > 0 then call('HDEL', blocks, unpack(dels)) end
  call('HINCRBY', base, 'bytes', string.format('%d', bytes))
  call('HINCRBY', base, 'seq', 1)
  if reservation ~= '' then call('HSET', base, reservation, '1') end
  return concat(reply)
end)

-- kvcm_meta_state: {time ms, records, all fields of the base key} of one shard, for a push.
register('kvcm_meta_state', function(keys)
  return {now_ms(), call('HLEN', keys[1] .. ':b'), call('HGETALL', keys[1])}
end, {'no-writes'})

-- kvcm_meta_pushed: the shard forgets used reservations that were pushed. ARGV: their names.
register('kvcm_meta_pushed', function(keys, args)
  return call('HDEL', keys[1], unpack(args))
end)

-- kvcm_meta_open: the number of shards, fixed by the first who opens the index. ARGV: wanted number.
register('kvcm_meta_open', function(keys, args)
  call('HSETNX', keys[1], 'shards', args[1])
  return tonumber(call('HGET', keys[1], 'shards'))
end)

-- kvcm_meta_reserve: all or nothing. ARGV: limit, reservation, ms that it is good for, then (shard, records) pairs.
-- Returns {1, use-by ms} or {0, records known, records reserved by others}.
register('kvcm_meta_reserve', function(keys, args)
  local base, known, reserved, wanted = keys[1], 0, 0, 0
  for _, value in ipairs(call('HVALS', base .. ':s')) do
    known = known + tonumber(string.match(value, '(%d+)$'))
  end
  for _, value in ipairs(call('HVALS', base .. ':r')) do
    reserved = reserved + tonumber(string.match(value, '^(%d+)'))
  end
  for i = 4, #args, 2 do wanted = wanted + tonumber(args[i + 1]) end
  if known + reserved + wanted > tonumber(args[1]) then return {0, known, reserved} end
  local use_by = string.format('%.0f', now_ms() + tonumber(args[3]))
  for i = 4, #args, 2 do
    call('HSET', base .. ':r', args[2] .. '|' .. args[i], args[i + 1] .. ' ' .. use_by)
  end
  return {1, tonumber(use_by)}
end)

-- kvcm_meta_push: ARGV: shard, generation, seq, records, time of the count (ms), then reservations that the shard
-- has used. An older (generation, seq) does not change the count. A reservation that the shard refused to take for
-- SLACK ms when it was counted is not in the count and never will be: it goes. (Two servers' clocks may differ.)
local SLACK = 2000
register('kvcm_meta_push', function(keys, args)
  local base, shard, gen, seq = keys[1], args[1], tonumber(args[2]), tonumber(args[3])
  local known = call('HGET', base .. ':s', shard)
  local known_gen, known_seq = string.match(known or '-1 -1 0', '^(%S+) (%S+)')
  for i = 6, #args do call('HDEL', base .. ':r', args[i] .. '|' .. shard) end
  if gen < tonumber(known_gen) or (gen == tonumber(known_gen) and seq < tonumber(known_seq)) then return 0 end
  call('HSET', base .. ':s', shard, concat({args[2], args[3], args[4]}, ' '))
  local latest, open = tonumber(args[5]) - SLACK, call('HGETALL', base .. ':r')
  for i = 1, #open, 2 do
    local use_by = tonumber(string.match(open[i + 1], '(%d+)$'))
    if string.match(open[i], '|(%S+)$') == shard and use_by < latest then call('HDEL', base .. ':r', open[i]) end
  end
  return 1
end)

-- kvcm_meta_release: gives reservations back that were not used and will not be. ARGV: '<reservation>|<shard>' …
register('kvcm_meta_release', function(keys, args)
  return call('HDEL', keys[1] .. ':r', unpack(args))
end)

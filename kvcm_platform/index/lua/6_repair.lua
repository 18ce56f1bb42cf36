-- kvcm_repair: replaces a shard's usage with a recount. ARGV: gen, sequence that the recount saw, then (field, value) pairs.
-- Returns 0 when the shard changed meanwhile: count again.
register('kvcm_repair', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  if (call('HGET', base, 'seq') or '0') ~= args[2] then return 0 end
  for _, field in ipairs(call('HKEYS', base)) do
    local kind = sub(field, 1, 2)
    if kind == 'b:' or kind == 'n:' then call('HDEL', base, field) end
  end
  for i = 3, #args, 2 do call('HSET', base, args[i], args[i + 1]) end
  call('HINCRBY', base, 'seq', 1)
  return 1
end)

-- kvcm_retotal: a group's totals from its vectors and reservations. Returns 1 when they were different.
register('kvcm_retotal', function(keys)
  local base = keys[1]
  local fresh = {}
  local function add(field, amount) fresh[field] = (fresh[field] or 0) + amount end
  for _, raw in ipairs(call('HVALS', base .. ':v')) do
    local vector = cmsgpack.unpack(raw)
    for where, amount in pairs(vector[3]) do
      local ref, state = string.match(where, '^(%d+):(%a)$')
      add('u', amount)
      add('u:' .. math.floor(tonumber(ref) / 65536), amount)
      if state == 'p' then
        add('p', amount)
        add('p:' .. math.floor(tonumber(ref) / 65536), amount)
      end
    end
    for where, amount in pairs(vector[4]) do
      if sub(where, -1) ~= 'p' then add('n', amount) end
    end
  end
  for _, raw in ipairs(call('HVALS', base .. ':r')) do
    local reservation = cmsgpack.unpack(raw)
    add('r', reservation[1])
    add('r:' .. reservation[2], reservation[1])
  end
  local changed, left = 0, {}
  for field, amount in pairs(fresh) do left[field] = amount end
  local known = call('HGETALL', base)
  for i = 1, #known, 2 do
    if tonumber(known[i + 1]) ~= (fresh[known[i]] or 0) then changed = 1 end
    left[known[i]] = nil
  end
  for _, amount in pairs(left) do
    if amount ~= 0 then changed = 1 end
  end
  if changed == 0 then return 0 end
  call('DEL', base)
  for field, amount in pairs(fresh) do call('HSET', base, field, string.format('%d', amount)) end
  return changed
end)

-- kvcm_lease_take: KEYS[1] = lease, ARGV: owner, ms. Returns the fencing number of the new holder, or 0 while
-- another one has the lease. Numbers rise, also over a rollback of the server: they are times, in ms.
register('kvcm_lease_take', function(keys, args)
  if not call('SET', keys[1], args[1], 'NX', 'PX', args[2]) then return 0 end
  local fence = math.max(tonumber(call('GET', keys[1] .. ':fence') or '0') + 1, now_ms())
  call('SET', keys[1] .. ':fence', string.format('%d', fence))
  return fence
end)

-- kvcm_lease_keep, kvcm_lease_drop: KEYS[1] = lease, ARGV: owner[, ms]. Return 1 while the lease is the owner's.
register('kvcm_lease_keep', function(keys, args)
  return call('GET', keys[1]) == args[1] and call('PEXPIRE', keys[1], args[2]) or 0
end)

register('kvcm_lease_drop', function(keys, args)
  return call('GET', keys[1]) == args[1] and call('DEL', keys[1]) or 0
end)

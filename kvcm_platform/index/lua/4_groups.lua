-- A group's quota: limits, usage vectors of its shards, open reservations. Base key {g:<number>}.
--   base         totals: u, u:<type>, p, p:<type> (bytes), n (blocks without pending ones) of the vectors; r, r:<type> of the
--                reservations
--   base .. ':l' limits: version, total, <type>; calls, blocks, sessions (8_permits.lua); mark, mark:<type>, mark:keys: live
--                bytes, of an instance blocks, from which on reclaim begins (core/reclaim/marks.py)
--   base .. ':v' <instance>:<shard> -> cmsgpack {gen, seq, {ref:state -> bytes}, {ref:state -> blocks}}
--   base .. ':r' <sid>|<instance>:<shard> -> cmsgpack {bytes, type, insert_by}      base .. ':x' the same by insert-by

local function add_total(base, field, amount)
  if amount ~= 0 then call('HINCRBY', base, field, string.format('%d', amount)) end
end

local function totals(key, ...)
  local found = call('HMGET', key, ...)
  for i = 1, #found do found[i] = tonumber(found[i] or '0') end
  return unpack(found)
end

local function reaches(mark, live) return mark and live >= tonumber(mark) end

-- kvcm_limits: what the publication of a group sets. ARGV: version, total, then (field, limit) pairs.
-- Limits without a mark are of a version that had none, and are set again.
register('kvcm_limits', function(keys, args)
  local limits = keys[1] .. ':l'
  local had = tonumber(call('HGET', limits, 'version') or '-1')
  if had > tonumber(args[1]) then return 0 end
  if had == tonumber(args[1]) and call('HEXISTS', limits, 'mark') == 1 then return 0 end
  call('DEL', limits)
  call('HSET', limits, 'version', args[1], 'total', args[2])
  for i = 3, #args, 2 do call('HSET', limits, args[i], args[i + 1]) end
  return 1
end)

-- kvcm_reserve: all or nothing. ARGV: sid, insert-by ms, bytes, number of candidates,
--   their types in order, then ('<instance>:<shard>', bytes) pairs.
-- Returns {'OK', index of the first candidate whose type has room[, 1 = a mark is reached]} | {'GROUP', used, limit} | {'TYPE'}
--   | {'LIMITS'}.
register('kvcm_reserve', function(keys, args)
  local base, sid, insert_by, bytes = keys[1], args[1], args[2], tonumber(args[3])
  local limits = base .. ':l'
  local cap, mark = unpack(call('HMGET', limits, 'total', 'mark'))
  if not cap then return {'LIMITS'} end
  local used, reserved, pending = totals(base, 'u', 'r', 'p')
  if used + reserved + bytes > tonumber(cap) then return {'GROUP', string.format('%d', used + reserved), cap} end
  local count = tonumber(args[4])
  for i = 1, count do
    local kind = args[4 + i]
    local own, own_mark = unpack(call('HMGET', limits, kind, 'mark:' .. kind))
    local of_kind, of_kind_pending = 0, 0
    if own then
      local held, promised
      held, promised, of_kind_pending = totals(base, 'u:' .. kind, 'r:' .. kind, 'p:' .. kind)
      of_kind = held + promised
    end
    if not own or of_kind + bytes <= tonumber(own) then
      for j = 5 + count, #args, 2 do
        local field = sid .. '|' .. args[j]
        call('HSET', base .. ':r', field, cmsgpack.pack({tonumber(args[j + 1]), kind, tonumber(insert_by)}))
        call('ZADD', base .. ':x', insert_by, field)
        add_total(base, 'r', tonumber(args[j + 1]))
        add_total(base, 'r:' .. kind, tonumber(args[j + 1]))
      end
      if reaches(mark, used + reserved - pending + bytes)
        or reaches(own_mark, of_kind - of_kind_pending + bytes) then return {'OK', i - 1, 1} end
      return {'OK', i - 1}
    end
  end
  return {'TYPE'}
end)

local function reservation_shrink(base, field, inserted, is_done)
  local raw = call('HGET', base .. ':r', field)
  if not raw then return end
  local r = cmsgpack.unpack(raw)
  local bytes, kind, insert_by, seen = r[1], r[2], r[3], r[4] or 0
  local step = is_done and bytes or math.min(bytes, inserted - seen)
  if step > 0 then
    add_total(base, 'r', -step)
    add_total(base, 'r:' .. kind, -step)
  end
  if is_done or bytes - step <= 0 then
    call('HDEL', base .. ':r', field)
    call('ZREM', base .. ':x', field)
  else
    call('HSET', base .. ':r', field, cmsgpack.pack({bytes - step, kind, insert_by, inserted}))
  end
end

local SHARDS = 16 -- of an instance at most (MAX_SHARDS in core/registry.py)

local function live_of(blocks)
  local live = 0
  for where, amount in pairs(blocks) do
    if sub(where, -1) ~= 'p' then live = live + amount end
  end
  return live
end

-- Whether the group, one of its types, or the instance of the vector that was just taken is over its mark.
local function is_marked(base, shard, blocks)
  local marks = {}
  local known = call('HGETALL', base .. ':l')
  for i = 1, #known, 2 do
    if sub(known[i], 1, 4) == 'mark' then marks[known[i]] = tonumber(known[i + 1]) end
  end
  local own = live_of(blocks)
  for name, mark in pairs(marks) do
    if name ~= 'mark:keys' then
      local kind = sub(name, 5)
      local used, reserved, pending = totals(base, 'u' .. kind, 'r' .. kind, 'p' .. kind)
      if used + reserved - pending >= mark then return true end
    elseif own * SHARDS >= mark then
      local instance, names, all = string.match(shard, '^%d+'), {}, 0
      for n = 1, SHARDS do names[n] = instance .. ':' .. (n - 1) end
      for _, raw in ipairs(call('HMGET', base .. ':v', unpack(names))) do
        if raw then all = all + live_of(cmsgpack.unpack(raw)[4]) end
      end
      if all >= mark then return true end
    end
  end
  return false
end

-- kvcm_push: the usage of one shard. ARGV: '<instance>:<shard>', gen, seq, cmsgpack {bytes, blocks} maps of 'ref:state',
--   then (sid, bytes inserted, '1' when no more will come) triples of the sessions inserted since the last push.
-- An older (gen, seq) changes nothing. An empty vector removes the shard's row. Returns 1 when it was taken,
--   2 when a mark is reached besides.
register('kvcm_push', function(keys, args)
  local base, shard, gen, seq = keys[1], args[1], tonumber(args[2]), tonumber(args[3])
  local before = call('HGET', base .. ':v', shard)
  local old = before and cmsgpack.unpack(before) or {-1, -1, {}, {}}
  if gen < old[1] or (gen == old[1] and seq < old[2]) then return 0 end
  local vector = cmsgpack.unpack(args[4])
  local function account(bytes, blocks, sign)
    for where, amount in pairs(bytes) do
      local ref, state = string.match(where, '^(%d+):(%a)$')
      local kind = math.floor(tonumber(ref) / 65536)
      add_total(base, 'u', sign * amount)
      add_total(base, 'u:' .. kind, sign * amount)
      if state == 'p' then
        add_total(base, 'p', sign * amount)
        add_total(base, 'p:' .. kind, sign * amount)
      end
    end
    for where, amount in pairs(blocks) do
      if sub(where, -1) ~= 'p' then add_total(base, 'n', sign * amount) end
    end
  end
  account(old[3], old[4], -1)
  account(vector[1], vector[2], 1)
  if next(vector[1]) == nil and next(vector[2]) == nil then
    call('HDEL', base .. ':v', shard)
  else
    call('HSET', base .. ':v', shard, cmsgpack.pack({gen, seq, vector[1], vector[2]}))
  end
  for i = 5, #args, 3 do
    reservation_shrink(base, args[i] .. '|' .. shard, tonumber(args[i + 1]), args[i + 2] == '1')
  end
  return is_marked(base, shard, vector[2]) and 2 or 1
end)

-- kvcm_release: gives reservations back: ARGV = fields. For a Start that failed before it wrote, and for the
-- sweeper, which calls it only past the insert-by time plus margin and after a fresh push of the shard.
register('kvcm_release', function(keys, args)
  for _, field in ipairs(args) do reservation_shrink(keys[1], field, 0, true) end
  return #args
end)

-- kvcm_usage: one shard's usage with the sessions inserted since the last push, for the pusher.
register('kvcm_usage', function(keys)
  return {call('HGETALL', keys[1]), call('HGETALL', keys[1] .. ':up')}
end, {'no-writes'})

-- kvcm_pushed: forgets reported sessions that have nothing more to report and did not change since.
-- ARGV: (sid, value) pairs.
register('kvcm_pushed', function(keys, args)
  local up = keys[1] .. ':up'
  for i = 1, #args, 2 do
    if call('HGET', up, args[i]) == args[i + 1] and sub(args[i + 1], -1) == '+' then call('HDEL', up, args[i]) end
  end
  return 1
end)

-- kvcm_publish: registry entries. ARGV: version, then (field, JSON or '' to remove) pairs.
-- base = {kvcm}:registry (field '<kind>:<name>' -> '<version> <JSON>'); ':v' newest version; ':log' what changed.
-- Entry by entry the newer version wins, so publications may arrive in any order and any number of times;
-- a removal leaves its version behind for that reason.
register('kvcm_publish', function(keys, args)
  local base, version = keys[1], tonumber(args[1])
  for i = 2, #args, 2 do
    local known = call('HGET', base, args[i]) or ''
    local had = tonumber(string.match(known, '^(%d+) ') or '-1')
    if version >= had then
      call('HSET', base, args[i], args[1] .. ' ' .. args[i + 1])
      call('XADD', base .. ':log', 'MAXLEN', '~', 1000, '*', 'f', args[i], 'v', args[1])
    end
  end
  if version > tonumber(call('GET', base .. ':v') or '-1') then call('SET', base .. ':v', args[1]) end
  return 1
end)

-- Single keys of a shard or a group that the server lost by itself (a foreign maxmemory policy): seen by counts that
-- no longer fit each other, and made whole from what is left (index/damage.py). Every step may be repeated at any time.

-- Of some blocks picked at random, how many their runs do not know.
local function unlisted_of(base, samples)
  local picked, unlisted = call('HRANDFIELD', base .. ':b', samples, 'WITHVALUES'), 0
  for i = 1, #picked, 2 do
    each_location(picked[i + 1], function(at)
      local run, found = sub(picked[i + 1], at + 5, at + 14), false
      local blob = call('HGET', base .. ':n', run) or ''
      for member = 1, #blob, 8 do
        if sub(blob, member, member + 7) == picked[i] then found = true end
      end
      if not found then unlisted = unlisted + 1 end
    end)
  end
  return unlisted
end

-- Of some runs picked at random, how many name a block that is not there.
local function dangling_of(base, samples)
  local picked, dangling = call('HRANDFIELD', base .. ':n', samples, 'WITHVALUES'), 0
  for i = 1, #picked, 2 do
    if call('HEXISTS', base .. ':b', sub(picked[i + 1], 1, 8)) == 0 then dangling = dangling + 1 end
  end
  return dangling
end

-- kvcm_pulse: how much each key of a shard holds, as of one moment. ARGV: how many blocks and runs to look at. Returns
-- numbers: blocks, runs, members of the recency order, due times and entries of pending deletions, fields and deadlines of
-- sessions, the same of tickets; by the usage blocks (locations) being written, served, pending; sequence; generation;
-- locations a thousand blocks may have; of those looked at, blocks that no run knows and runs of a block that is gone.
register('kvcm_pulse', function(keys, args)
  local base, usage = keys[1], {w = 0, s = 0, p = 0}
  local known, fields = call('HGETALL', base), {}
  for i = 1, #known, 2 do
    local state = string.match(known[i], '^n:%d+:(%a)$')
    if state then usage[state] = usage[state] + tonumber(known[i + 1]) end
    fields[known[i]] = known[i + 1]
  end
  return {
    call('HLEN', base .. ':b'), call('HLEN', base .. ':n'), call('ZCARD', base .. ':r'),
    call('ZCARD', base .. ':d'), call('HLEN', base .. ':p'), call('HLEN', base .. ':w'), call('ZCARD', base .. ':wd'),
    call('HLEN', base .. ':t'), call('ZCARD', base .. ':td'), usage.w, usage.s, usage.p,
    fields.seq or '0', fields.gen or '0', fields.spread or '1000',
    unlisted_of(base, args[1]), dangling_of(base, args[1]),
  }
end, {'no-writes'})

-- kvcm_mend_begin: a shard is about to be made whole. ARGV: gen, sequence that its group has of it.
-- The sequence passes that one, and the epoch leaves a gap, so that every search cache begins anew.
register('kvcm_mend_begin', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  local seq, epoch = tonumber(call('HGET', base, 'seq') or '0'), tonumber(call('HGET', base, 'epoch') or '0')
  local newest = call('XREVRANGE', base .. ':e', '+', '-', 'COUNT', 1)[1]
  if newest then
    for i = 1, #newest[2], 2 do
      if newest[2][i] == 'e' then epoch = math.max(epoch, tonumber(newest[2][i + 1])) end
    end
  end
  local told = string.format('%d', epoch + 2)
  call('HSET', base, 'seq', string.format('%d', math.max(seq, tonumber(args[2])) + 1), 'epoch', told)
  call('XADD', base .. ':e', 'MAXLEN', '~', STREAM_LENGTH, '*', 'e', told, 't', 'lost', 'k', '', 'r', '')
  return 1
end)

-- Members of a run, in the order of its Start, that have a location of it. records: key -> record, read as needed.
local function members_of(base, run, wanted)
  local places, order = {}, {}
  local records = #wanted > 0 and call('HMGET', base .. ':b', unpack(wanted)) or {}
  for i, key in ipairs(wanted) do
    if records[i] and not places[key] then
      each_location(records[i], function(at)
        if sub(records[i], at + 5, at + 14) == run then
          places[key] = {struct.unpack('>I2', records[i], at + 27), struct.unpack('>I6', records[i], at + 21)}
          order[#order + 1] = key
        end
        return places[key]
      end)
    end
  end
  table.sort(order, function(one, other) return places[one][1] < places[other][1] end)
  return order, order[1] and places[order[1]][2] or 0
end

local function list_run(base, run, wanted)
  local order, time = members_of(base, run, wanted)
  if #order == 0 then
    call('HDEL', base .. ':n', run)
    call('ZREM', base .. ':r', run)
    return order
  end
  call('HSET', base .. ':n', run, concat(order))
  -- Nobody knows any more when it was used: as if never since it was written, the runs of one Start from its end.
  local _, ordinal = struct.unpack('>c8I2', run)
  if not call('ZSCORE', base .. ':r', run) then call('ZADD', base .. ':r', 'NX', score(time, ordinal % 4096 * 16), run) end
  return order
end

-- kvcm_mend: blocks get back their runs, those being deleted their places on the list of pending deletions, and what is
-- written by a session that is gone is removed. ARGV: gen, delay ms, location ids of lost sessions (8 bytes each), keys.
register('kvcm_mend', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  local due, lost, chunk = now_ms() + tonumber(args[2]), {}, unpack_keys(args[4])
  for i = 1, #args[3], 8 do lost[sub(args[3], i, i + 7)] = true end
  if #chunk == 0 then return 0 end
  local usage, unlisted, blobs, mended, failed = usage_delta(), {}, {}, 0, {}
  local records = call('HMGET', base .. ':b', unpack(chunk))
  for i, key in ipairs(chunk) do
    local record = records[i]
    if record then
      local parts, changed = {}, false
      each_location(record, function(at, stop, status, ref)
        local entry, locid, run = sub(record, at, stop), sub(record, at + 5, at + 12), sub(record, at + 5, at + 14)
        if status == WRITING and lost[locid] then
          entry, changed, failed[#failed + 1] = char(DELETING) .. sub(entry, 2), true, key
          usage.moved(ref, 'w', 'p', size_at(record, at))
          add_pending(base, due, 'w', key, entry)
          mended = mended + 1
        elseif status == DELETING and call('HEXISTS', base .. ':p', locid .. key) == 0 then
          add_pending(base, due, 'w', key, entry)
          mended = mended + 1
        end
        parts[#parts + 1] = entry
        if blobs[run] == nil then
          blobs[run] = call('ZSCORE', base .. ':r', run) and call('HGET', base .. ':n', run) or false
        end
        local found = false
        for member = 1, blobs[run] and #blobs[run] or 0, 8 do
          if sub(blobs[run], member, member + 7) == key then found = true end
        end
        if not found then
          unlisted[run] = unlisted[run] or {}
          insert(unlisted[run], key)
        end
      end)
      if changed then call('HSET', base .. ':b', key, concat(parts)) end
    end
  end
  for run, missing in pairs(unlisted) do
    local wanted = unpack_keys(call('HGET', base .. ':n', run) or '')
    for _, key in ipairs(missing) do wanted[#wanted + 1] = key end
    list_run(base, run, wanted)
    mended = mended + 1
  end
  if mended > 0 then
    note_gone(base, 'lost', failed)
    leave(base, usage)
  end
  return mended
end)

-- kvcm_mend_runs: runs forget blocks that are gone. ARGV: gen, run … Returns the number of blocks that were.
register('kvcm_mend_runs', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  local gone = {}
  for i = 2, #args do
    local wanted = unpack_keys(call('HGET', base .. ':n', args[i]) or '')
    local there = {}
    for _, key in ipairs(list_run(base, args[i], wanted)) do there[key] = true end
    for _, key in ipairs(wanted) do
      if not there[key] then gone[#gone + 1] = key end
    end
  end
  note_gone(base, 'lost', gone)
  return #gone
end)

-- kvcm_mend_pending: entries get back their due times, times without an entry go. ARGV: gen, delay ms, delay ms of second
-- passes, member … Returns how many.
register('kvcm_mend_pending', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  local now, mended = now_ms(), 0
  for i = 4, #args do
    local value, due = call('HGET', base .. ':p', args[i]), call('ZSCORE', base .. ':d', args[i])
    if value and not due then
      call('ZADD', base .. ':d', now + tonumber(sub(value, 1, 1) == 'g' and args[3] or args[2]), args[i])
      mended = mended + 1
    elseif due and not value then
      call('ZREM', base .. ':d', args[i])
      mended = mended + 1
    end
  end
  return mended
end)

-- kvcm_mend_deadlines: the same of sessions ('w') or tickets ('t'). ARGV: gen, which, sid …
register('kvcm_mend_deadlines', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  local name, mended = base .. ':' .. args[2], 0
  for i = 3, #args do
    local raw, due = call('HGET', name, args[i]), call('ZSCORE', name .. 'd', args[i])
    if raw and not due then
      local _, first, second = struct.unpack('>BI6I6', raw .. '\0\0\0\0\0\0')
      call('ZADD', name .. 'd', args[2] == 'w' and second or first, args[i])
      mended = mended + 1
    elseif due and not raw then
      call('ZREM', name .. 'd', args[i])
      mended = mended + 1
    end
  end
  return mended
end)

-- kvcm_mend_usage: counts a shard in one go and sets its usage. ARGV: gen, most blocks and deletions that may be counted.
-- Returns -1 when there are more, else how many fields of the usage were different.
register('kvcm_mend_usage', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  local blocks = call('HLEN', base .. ':b')
  if blocks + call('HLEN', base .. ':p') > tonumber(args[2]) then return -1 end
  local fresh, locations = {}, 0
  local function add(ref, state, size)
    local bytes, count = 'b:' .. ref .. ':' .. state, 'n:' .. ref .. ':' .. state
    fresh[bytes], fresh[count] = (fresh[bytes] or 0) + size, (fresh[count] or 0) + 1
  end
  local function each_value(name, visit)
    local cursor, seen = '0', {}
    repeat
      local page = call('HSCAN', name, cursor, 'COUNT', 1000)
      cursor = page[1]
      for i = 1, #page[2], 2 do
        if not seen[page[2][i]] then
          seen[page[2][i]] = true
          visit(page[2][i + 1])
        end
      end
    until cursor == '0'
  end
  each_value(base .. ':b', function(record)
    each_location(record, function(at, _, status, ref)
      locations = locations + 1
      if status ~= DELETING then add(ref, status == WRITING and 'w' or 's', size_at(record, at)) end
    end)
  end)
  each_value(base .. ':p', function(value)
    local entry = #value > 0 and string.find('dwfeE', sub(value, 1, 1), 1, true) and pending_entry(value)
    if entry and #entry >= HEADER then
      local _, _, ref = struct.unpack('>BBI3', entry)
      add(ref, 'p', size_at(entry, 1))
    end
  end)
  local changed, known = 0, call('HGETALL', base)
  for i = 1, #known, 2 do
    if string.match(known[i], '^[bn]:') and not fresh[known[i]] then
      call('HDEL', base, known[i])
      changed = changed + 1
    end
  end
  for field, amount in pairs(fresh) do
    if tonumber(call('HGET', base, field) or '0') ~= amount then
      call('HSET', base, field, string.format('%d', amount))
      changed = changed + 1
    end
  end
  if blocks > 0 then call('HSET', base, 'spread', math.ceil(1000 * locations / blocks)) end
  call('HINCRBY', base, 'seq', 1)
  return changed
end)

-- kvcm_mend_reservations: those of a group get back their insert-by times; times without one go. Returns how many.
register('kvcm_mend_reservations', function(keys)
  local base, mended = keys[1], 0
  local known = call('HGETALL', base .. ':r')
  for i = 1, #known, 2 do
    if not call('ZSCORE', base .. ':x', known[i]) then
      call('ZADD', base .. ':x', cmsgpack.unpack(known[i + 1])[3], known[i])
      mended = mended + 1
    end
  end
  for _, field in ipairs(call('ZRANGE', base .. ':x', 0, -1)) do
    if call('HEXISTS', base .. ':r', field) == 0 then
      call('ZREM', base .. ':x', field)
      mended = mended + 1
    end
  end
  return mended
end)

-- Removal: SERVING / WRITING -> DELETING -> gone, and the list of pending deletions.
--   {tag}:d  location id + key by due time      {tag}:p  location id + key -> flag + location entry

-- Whether a trim with this mode and span takes a location.
local function is_in_span(mode, status, time, from, to)
  return status ~= DELETING and time >= from and time <= to and (status == SERVING or mode ~= 'time')
end

-- kvcm_remove: marks locations DELETING. ARGV: gen, mode, delay ms, begin ms, end ms, packed keys, why (for those who
--   ask later, '' = not noted), and with mode 'named' the ids of each key's locations that go, one behind the other.
--   mode 'all': every location; 'time': SERVING ones written within [begin, end] and, with mode 'until',
--   also WRITING ones started by then; 'meta': as 'until', but the record goes at once and the bytes leave
--   the usage: the entry waits for its way to the storage's orphan list.
-- Returns {number of locations, their bytes}.
register('kvcm_remove', function(keys, args)
  local base, mode = keys[1], args[2]
  local refused = enter(base, args[1])
  if refused then return refused end
  local now = now_ms()
  local due = now + tonumber(args[3])
  local from, to = tonumber(args[4]), tonumber(args[5])
  local chunk = unpack_keys(args[6])
  if #chunk == 0 then return {0, 0} end
  local records = call('HMGET', base .. ':b', unpack(chunk))
  local sets, dels, removed, usage, dropped = {}, {}, {}, usage_delta(), {}
  local count, bytes, touched = 0, 0, {}
  for i, key in ipairs(chunk) do
    local record = records[i]
    if record then
      local parts, changed = {}, false
      each_location(record, function(at, stop, status, ref)
        local wanted = status ~= DELETING
        if mode == 'named' then
          wanted = wanted and string.find(args[7 + i], sub(record, at + 5, at + 12), 1, true) ~= nil
        elseif mode ~= 'all' then
          wanted = is_in_span(mode, status, struct.unpack('>I6', record, at + 21), from, to)
        end
        if not wanted then
          parts[#parts + 1] = sub(record, at, stop)
          return
        end
        local size = size_at(record, at)
        local entry = char(DELETING) .. sub(record, at + 1, stop)
        changed, count, bytes = true, count + 1, bytes + size
        touched[sub(entry, 6, 15)] = true
        if mode == 'meta' then
          usage.moved(ref, status == SERVING and 's' or 'w', nil, size)
          add_pending(base, now, 'o', key, entry)
          note_removed(removed, sub(entry, 6, 15), key)
        else
          usage.moved(ref, status == SERVING and 's' or 'w', 'p', size)
          add_pending(base, due, status == SERVING and 'd' or 'w', key, entry)
          parts[#parts + 1] = entry
        end
      end)
      if changed then
        dropped[#dropped + 1] = key
        local rest = concat(parts)
        if rest == '' then
          dels[#dels + 1] = key
        else
          sets[#sets + 1] = key
          sets[#sets + 1] = rest
        end
      end
    end
  end
  if count > 0 then
    if #sets > 0 then call('HSET', base .. ':b', unpack(sets)) end
    if #dels > 0 then call('HDEL', base .. ':b', unpack(dels)) end
    forget_runs(base, removed)
    leave(base, usage, {drop = dropped}, {drop = touched})
    note_gone(base, args[7], dropped)
  end
  return {count, string.format('%d', bytes)}
end)

-- kvcm_trim_count: what a trim would take, a part of the shard at a time. ARGV: mode, begin ms, end ms, cursor, how many
-- blocks to look at, about. Returns {next cursor ('0' at the end), packed (key 8, storage ref 3, bytes 6) of each
-- location}; while the server resizes its table a key may come twice.
register('kvcm_trim_count', function(keys, args)
  local mode, from, to, rows = args[1], tonumber(args[2]), tonumber(args[3]), {}
  local page = call('HSCAN', keys[1] .. ':b', args[4], 'COUNT', args[5])
  for i = 1, #page[2], 2 do
    local key, record = page[2][i], page[2][i + 1]
    each_location(record, function(at, _, status)
      if is_in_span(mode, status, struct.unpack('>I6', record, at + 21), from, to) then
        rows[#rows + 1] = key .. sub(record, at + 2, at + 4) .. sub(record, at + 15, at + 20)
      end
    end)
  end
  return {page[1], concat(rows)}
end, {'no-writes'})

-- kvcm_due: pending deletions that are due. ARGV: limit, how many to pass over, how many ms ahead of their time.
-- Returns {now, when the last of them is due, member, value, member, value, …}.
register('kvcm_due', function(keys, args)
  local base, now = keys[1], now_ms()
  local until_ms = string.format('%d', now + tonumber(args[3] or '0'))
  local found = call('ZRANGEBYSCORE', base .. ':d', '-inf', until_ms, 'WITHSCORES', 'LIMIT', args[2] or 0, args[1])
  local reply, members = {now, now}, {}
  for i = 1, #found, 2 do members[#members + 1] = found[i] end
  if #members > 0 then
    reply[2] = math.floor(tonumber(found[#found]))
    local values = call('HMGET', base .. ':p', unpack(members))
    for i, member in ipairs(members) do
      reply[#reply + 1] = member
      reply[#reply + 1] = values[i] or ''
    end
  end
  return reply
end, {'no-writes'})

-- kvcm_deleted: these deletions are over. ARGV: gen, second-pass delay ms, '1' when their objects stay as orphans, then
-- flag + member as kvcm_due gave them: one whose flag changed since was dealt with by another.
-- What was being written ('f', 'w') is freed once more after the longest write timeout ('g').
register('kvcm_deleted', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  local again, end_of_run = now_ms() + tonumber(args[2]), args[3] == '1' and 'o' or 'f'
  local usage, accounts, removed, count = usage_delta(), run_accounts(), {}, 0
  for i = 4, #args do
    local flag, member = sub(args[i], 1, 1), sub(args[i], 2)
    local value = call('HGET', base .. ':p', member)
    if value and sub(value, 1, 1) == flag then
      count = count + 1
      local entry, run = pending_entry(value)
      local size, _, _, ref = size_at(entry, 1), struct.unpack('>BBI3', entry)
      if run then
        accounts.add(run, end_of_run, 1, size)
        if flag == 'E' then accounts.add(run, 'x', -1, -size) end
      end
      if run or flag == 'd' or flag == 'f' or flag == 'w' then usage.moved(ref, 'p', nil, size) end
      if flag == 'f' or flag == 'w' then
        call('HSET', base .. ':p', member, 'g' .. entry)
        call('ZADD', base .. ':d', again, member)
      else
        call('HDEL', base .. ':p', member)
        call('ZREM', base .. ':d', member)
      end
      if run or flag == 'd' or flag == 'w' then
        local locid, key = sub(member, 1, 8), sub(member, 9)
        local record = call('HGET', base .. ':b', key)
        if record then
          each_location(record, function(at, stop, status)
            if status == DELETING and sub(record, at + 5, at + 12) == locid then
              local rest = sub(record, 1, at - 1) .. sub(record, stop + 1)
              if rest == '' then
                call('HDEL', base .. ':b', key)
              else
                call('HSET', base .. ':b', key, rest)
              end
              note_removed(removed, sub(record, at + 5, at + 14), key)
              return true
            end
          end)
        end
      end
    end
  end
  if count > 0 then
    forget_runs(base, removed)
    leave(base, usage)
    accounts.apply(base)
  end
  return count
end)

-- kvcm_postpone: these could not be deleted yet. ARGV: gen, delay ms, flag + member …
register('kvcm_postpone', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  local due, accounts = now_ms() + tonumber(args[2]), run_accounts()
  for i = 3, #args do
    local member = sub(args[i], 2)
    call('ZADD', base .. ':d', 'XX', due, member)
    local value = byte(args[i]) == 101 and call('HGET', base .. ':p', member) -- 'e'
    if value and byte(value) == 101 and #value > 9 + HEADER then
      local entry, run = pending_entry(value)
      call('HSET', base .. ':p', member, 'E' .. sub(value, 2))
      accounts.add(run, 'x', 1, size_at(entry, 1))
    end
  end
  accounts.apply(base)
  return #args - 2
end)

-- kvcm_touch: a read used these runs. ARGV: gen, packed (10-byte run, 2-byte depth, 6-byte tick in ms) …
-- All that one request used has its tick, whichever call tells of it: chains are told by it (core/reclaim/order.py).
register('kvcm_touch', function(keys, args)
  local refused = enter(keys[1], args[1])
  if refused then return refused end
  local now, recency, blob = now_ms(), keys[1] .. ':r', args[2]
  for at = 1, #blob, 18 do
    local run, depth, tick = struct.unpack('>c10I2I6', sub(blob, at, at + 17))
    call('ZADD', recency, 'XX', 'GT', score(math.min(now, tick), depth), run)
  end
  return #blob / 18
end)

-- Write sessions: open -> finishing -> gone. Layout of a session's header: index/codec.py.
--   {tag}:w  sid -> header, sid .. ':k' -> keys, sid .. ':x' -> indexes that lost a race, sid .. ':m' -> mask,
--           of a copy sid .. ':s' -> 1 byte (1 = the source goes), its delay in ms (6), id of each key's source (8)
--   {tag}:wd sid by deadline      {tag}:up  sid -> bytes inserted so far, '+' behind it when no more will come

local OPEN, FINISHING = 1, 2
local CHUNK = 512

local function session_header(base, sid)
  local raw = call('HGET', base .. ':w', sid)
  if not raw then return nil end
  local state, insert_by, deadline, count, inserted, started, locid, ref = struct.unpack('>BI6I6I3I3I6c8I3', raw)
  return {raw = raw, state = state, insert_by = insert_by, deadline = deadline, count = count,
          inserted = inserted, started = started, locid = locid, ref = ref}
end

local function session_header_set(base, sid, s)
  call('HSET', base .. ':w', sid, struct.pack('>BI6I6I3I3I6c8I3', s.state, s.insert_by, s.deadline, s.count,
    s.inserted, s.started, s.locid, s.ref) .. sub(s.raw, 37))
end

local function session_drop(base, sid)
  call('HDEL', base .. ':w', sid, sid .. ':k', sid .. ':x', sid .. ':m', sid .. ':s')
  call('ZREM', base .. ':wd', sid)
end

-- The reservation in the group's tag shrinks by what the next push reports (4.1 of the design).
local function note_inserted(base, sid, bytes, is_last)
  local known = call('HGET', base .. ':up', sid) or '0'
  local total = tonumber((string.gsub(known, '+', ''))) + bytes
  call('HSET', base .. ':up', sid, string.format('%d', total) .. (is_last and '+' or ''))
end

local function losers(base, sid)
  local blob, set, count = call('HGET', base .. ':w', sid .. ':x'), {}, 0
  if blob then
    for i = 1, #blob, 3 do
      set[struct.unpack('>I3', sub(blob, i, i + 2))] = true
      count = count + 1
    end
  end
  return set, count
end

-- Whether a block has a location that the planner did not see and that exists: WRITING, DELETING, or SERVING on
-- a served storage. seen: ids of the locations that it saw, or nil.
local function was_overtaken(record, served, seen)
  local found = false
  each_location(record, function(at, _, status, ref)
    if status ~= SERVING or served[ref % 65536] then
      found = true
      for i = 1, seen and #seen or 0, 8 do
        if sub(seen, i, i + 7) == sub(record, at + 5, at + 12) then found = false end
      end
    end
    return found
  end)
  return found
end

-- kvcm_write: inserts one chunk of WRITING locations, the first one together with the session.
-- ARGV: gen, sid, session header (first chunk) or '', all keys (first chunk) or '', max sessions, max keys,
--       numbers of the served storages as 2-byte values, index of the chunk's first key, depths (2 bytes a key),
--       keys of the chunk, tick (ms), runs of the request's existing blocks (10 + 2 bytes of depth each, first
--       chunk), cmsgpack {number of a key in the chunk -> ids of the locations that the planner saw} or '', then one
--       location entry a key. One tick for all runs of a request: a chain is evicted from its tail.
-- Returns {'OK', indexes of keys that exist by now}; {'LATE'} after the insert-by time; {'SESSIONS'}; {'KEYS'}.
-- Losing entries go to the pending list at once: their slots must be freed.
register('kvcm_write', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  local sid, now = args[2], now_ms()
  local session
  if args[3] ~= '' then
    local _, insert_by = struct.unpack('>BI6', args[3])
    if now > insert_by then return {'LATE'} end
    if call('ZCARD', base .. ':wd') >= tonumber(args[5]) then return {'SESSIONS'} end
  else
    session = session_header(base, sid)
    if not session or session.state ~= OPEN or now > session.insert_by or session.inserted ~= tonumber(args[8]) then
      return {'LATE'}
    end
  end
  local chunk = unpack_keys(args[10])
  -- The first chunk answers for the whole Start, so that none is refused half-way.
  local growth = args[3] ~= '' and #args[4] / 8 or #chunk
  if growth > 0 and call('HLEN', base .. ':b') + growth > tonumber(args[6]) then return {'KEYS'} end
  if not session then
    call('HSET', base .. ':w', sid, args[3], sid .. ':k', args[4])
    session = session_header(base, sid)
    call('ZADD', base .. ':wd', session.deadline, sid)
  end

  local served = {}
  for i = 1, #args[7], 2 do served[struct.unpack('>I2', args[7], i)] = true end
  local offset, usage, lost, bytes = tonumber(args[8]), usage_delta(), {}, 0
  local tick = math.min(now, tonumber(args[11]))
  for at = 1, #args[12], 12 do
    local run, depth = struct.unpack('>c10I2', sub(args[12], at, at + 11))
    call('ZADD', base .. ':r', 'XX', 'GT', score(tick, depth), run)
  end
  local runs, run_depth, sets, filled, writing = {}, {}, {}, 0, 0
  local last_run, members
  local known = #chunk > 0 and call('HMGET', base .. ':b', unpack(chunk)) or {}
  local seen = args[13] ~= '' and cmsgpack.unpack(args[13]) or {}
  -- A caller's clock may be ahead of this server's: a trim of what was begun until now must find it.
  local is_ahead = #chunk > 0 and struct.unpack('>I6', args[14], 22) > now
  local stamp = is_ahead and struct.pack('>I6', now)
  for i, key in ipairs(chunk) do
    local entry, record = args[13 + i], known[i]
    if is_ahead then entry = sub(entry, 1, 21) .. stamp .. sub(entry, 28) end
    local run, size = struct.unpack('>xxxxxc10I6', entry)
    if record and was_overtaken(record, served, seen[i]) then
      lost[#lost + 1] = offset + i - 1
      usage.moved(session.ref, nil, 'p', size)
      add_pending(base, now, 'f', key, entry)
    else
      filled = filled + 2
      sets[filled - 1] = key
      sets[filled] = record and record .. entry or entry
      writing = writing + size
      if run ~= last_run then
        last_run, members = run, runs[run]
        if not members then
          members = {}
          runs[run] = members
          run_depth[run] = struct.unpack('>I2', args[9], i * 2 - 1)
        end
      end
      members[#members + 1] = key
    end
    bytes = bytes + size
  end
  if filled > 0 then
    call('HSET', base .. ':b', unpack(sets))
    usage.moved(session.ref, nil, 'w', writing, filled / 2)
  end
  for run, members in pairs(runs) do
    local before = call('HGET', base .. ':n', run) or ''
    call('HSET', base .. ':n', run, before .. concat(members))
    call('ZADD', base .. ':r', score(tick, run_depth[run]), run)
  end
  if #lost > 0 then
    local packed = {call('HGET', base .. ':w', sid .. ':x') or ''}
    for _, index in ipairs(lost) do packed[#packed + 1] = struct.pack('>I3', index) end
    call('HSET', base .. ':w', sid .. ':x', concat(packed))
  end
  session.inserted = session.inserted + #chunk
  session_header_set(base, sid, session)
  if session.count > 0 then note_inserted(base, sid, bytes, session.inserted >= session.count) end
  leave(base, usage)
  local reply = {'OK'}
  for _, index in ipairs(lost) do reply[#reply + 1] = index end
  return reply
end)

-- What a session copies: `source(index)` is the id of the location that a key's copy was read from. Nil: no copy.
local function copy_of(base, sid)
  local raw = call('HGET', base .. ':w', sid .. ':s')
  if not raw then return nil end
  local goes, delay = struct.unpack('>BI6', raw)
  return {goes = goes == 1, delay = delay, source = function(index) return sub(raw, index * 8 + 8, index * 8 + 15) end}
end

-- Flips or drops the session's keys from index `from` on, at most CHUNK of them. The session is
-- FINISHING and its mask is stored. Returns the index to go on with, or -1 when the session is gone.
-- A copy is flipped only while the location that it was read from is SERVING: a location never comes back from
-- DELETING and its object is not touched before, so what was read is whole. It keeps the time of its source.
local function finish_chunk(base, sid, session, from)
  local now = now_ms()
  local blob, mask = call('HGET', base .. ':w', sid .. ':k'), call('HGET', base .. ':w', sid .. ':m')
  local lost = losers(base, sid)
  local to = math.min(from + CHUNK, session.count)
  local position = from
  for index in pairs(lost) do
    if index < from then position = position - 1 end
  end
  local chunk = unpack_keys(blob, from + 1, to)
  local records = #chunk > 0 and call('HMGET', base .. ':b', unpack(chunk)) or {}
  local sets, dels, removed, usage, served, dropped, extended = {}, {}, {}, usage_delta(), {}, {}, {}
  local stamp, serving, locid = struct.pack('>I6', now), char(SERVING), session.locid
  local filled, flipped, flipped_bytes = 0, 0, 0
  local copy, told = copy_of(base, sid), {}
  local failed, moved, reason = {}, {}, 'failed'
  for i, key in ipairs(chunk) do
    local index = from + i - 1
    if not lost[index] then
      position = position + 1
      local verdict, record = byte(mask, position), records[i]
      local success = verdict == 49 -- '1'
      if verdict == 120 then reason = 'expired' end -- 'x'
      local source = copy and success and record and location_at(record, copy.source(index), SERVING)
      if copy and not source then success = false end
      local status, owner, size, length
      if record then status, owner, size, length = struct.unpack('>Bxxxxc8xxI6xxxxxxxxxxxxI3', record) end
      if success and record and length + HEADER == #record then
        if status == WRITING and owner == locid then
          filled = filled + 2
          sets[filled - 1] = key
          sets[filled] = serving .. sub(record, 2, 21) .. stamp .. sub(record, 28)
          flipped, flipped_bytes = flipped + 1, flipped_bytes + size
          served[flipped] = key
        end
      elseif record then
        each_location(record, function(at, stop, status, ref)
          if status == WRITING and sub(record, at + 5, at + 12) == locid then
            local size = size_at(record, at)
            if success then
              filled = filled + 2
              sets[filled - 1] = key
              sets[filled] = sub(record, 1, at - 1) .. serving .. sub(record, at + 1, at + 20) ..
                (source and sub(record, source + 21, source + 26) or stamp) .. sub(record, at + 27)
              flipped, flipped_bytes = flipped + 1, flipped_bytes + size
              served[flipped] = key
              -- A cached answer for this block lacks what was just added to it.
              each_location(record, function(other) extended[sub(record, other + 5, other + 14)] = true end)
              if source and copy.goes then
                local run
                sets[filled], run = retire(base, usage, key, sets[filled], source, now + copy.delay)
                dropped[#dropped + 1], told[run] = key, true
                moved[#moved + 1] = key
              end
            else
              local entry = sub(record, at, stop)
              local rest = sub(record, 1, at - 1) .. sub(record, stop + 1)
              if rest == '' then
                dels[#dels + 1] = key
              else
                filled = filled + 2
                sets[filled - 1] = key
                sets[filled] = rest
              end
              note_removed(removed, sub(entry, 6, 15), key)
              usage.moved(ref, 'w', 'p', size)
              add_pending(base, now, 'f', key, entry)
              dropped[#dropped + 1] = key
              -- Of a copy that failed nothing left: the block is where it was, or its removal has told why.
              if not copy then failed[#failed + 1] = key end
            end
            return true
          end
        end)
      end
    end
  end
  if filled > 0 then call('HSET', base .. ':b', unpack(sets)) end
  if #dels > 0 then call('HDEL', base .. ':b', unpack(dels)) end
  usage.moved(session.ref, 'w', 's', flipped_bytes, flipped)
  forget_runs(base, removed)
  for run in pairs(removed) do told[run] = true end
  leave(base, usage, {serve = served, drop = dropped}, {serve = extended, drop = told})
  note_gone(base, reason, failed)
  note_gone(base, 'moved', moved)
  if to < session.count then return to end
  if session.inserted < session.count then note_inserted(base, sid, 0, true) end
  session_drop(base, sid)
  return -1
end

-- Begins to finish. A session that needs further calls is due for the sweep soon, should nobody make them.
local function finish_begin(base, sid, session, now)
  local next_index = finish_chunk(base, sid, session, 0)
  if next_index >= 0 then call('ZADD', base .. ':wd', math.min(session.deadline, now + 2000), sid) end
  return next_index
end

-- kvcm_finish: the client's Finish. ARGV: gen, sid, 'offset' | 'bools', number or string of '0' / '1', then '1' when
-- the session's ticket has decided: the deadline does not count, and what was begun goes on.
-- Returns {'OK', next index or -1, number of blocks}; {'GONE'} unknown, used or expired; {'MASK', expected length}.
register('kvcm_finish', function(keys, args)
  local base, sid = keys[1], args[2]
  local refused = enter(base, args[1])
  if refused then return refused end
  local session, is_decided = session_header(base, sid), args[5] == '1'
  if not session then return {'GONE'} end
  if not is_decided and (session.state ~= OPEN or now_ms() > session.deadline) then return {'GONE'} end
  local _, lost_count = losers(base, sid)
  local expected, mask = session.count - lost_count, args[4]
  if args[3] == 'offset' then
    local offset = tonumber(mask)
    if offset < 0 or offset > expected then return {'MASK', expected} end
    mask = string.rep('1', offset) .. string.rep('0', expected - offset)
  elseif #mask ~= expected then
    return {'MASK', expected}
  end
  session.state = FINISHING
  session_header_set(base, sid, session)
  call('HSET', base .. ':w', sid .. ':m', mask)
  return {'OK', finish_begin(base, sid, session, now_ms()), expected}
end)

-- kvcm_finish_next: goes on with a session in FINISHING. ARGV: gen, sid, index. Returns {'OK', next} or {'GONE'}.
register('kvcm_finish_next', function(keys, args)
  local base, sid = keys[1], args[2]
  local refused = enter(base, args[1])
  if refused then return refused end
  local session = session_header(base, sid)
  if not session or session.state ~= FINISHING then return {'GONE'} end
  return {'OK', finish_chunk(base, sid, session, tonumber(args[3]))}
end)

-- kvcm_park: blocks of an OPEN session that will never be inserted: their slots are freed. ARGV: gen, sid, force,
-- number of keys inserted or parked so far, then (key, entry) pairs of the next ones, at most CHUNK of them.
-- Returns {'OK'}; {'AGAIN'} when more was inserted meanwhile; {'GONE'}.
register('kvcm_park', function(keys, args)
  local base, sid = keys[1], args[2]
  local refused = enter(base, args[1])
  if refused then return refused end
  local session, now = session_header(base, sid), now_ms()
  if not session or session.state ~= OPEN then return {'GONE'} end
  if args[3] ~= '1' and now <= session.deadline then return {'GONE'} end
  if session.inserted ~= tonumber(args[4]) then return {'AGAIN'} end
  local usage, bytes, count = usage_delta(), 0, 0
  for i = 5, #args, 2 do
    local size = size_at(args[i + 1], 1)
    bytes, count = bytes + size, count + 1
    add_pending(base, now, 'f', args[i], args[i + 1])
  end
  usage.moved(session.ref, nil, 'p', bytes, count)
  session.inserted = session.inserted + count
  session_header_set(base, sid, session)
  note_inserted(base, sid, bytes, session.inserted >= session.count)
  leave(base, usage)
  return {'OK'}
end)

-- kvcm_fail: ends an OPEN session with all blocks failed ('x' in its mask: nobody finished it): past its deadline, or at
-- once when ARGV[3] = '1'.
-- Returns as kvcm_finish; {'AGAIN'} while there are keys neither inserted nor parked, and they were not given up.
register('kvcm_fail', function(keys, args)
  local base, sid = keys[1], args[2]
  local refused = enter(base, args[1])
  if refused then return refused end
  local session, now = session_header(base, sid), now_ms()
  if not session or session.state ~= OPEN then return {'GONE'} end
  if args[3] ~= '1' and now <= session.deadline then return {'GONE'} end
  if session.inserted < session.count and args[4] ~= '1' then return {'AGAIN'} end
  local _, lost_count = losers(base, sid)
  session.state = FINISHING
  session_header_set(base, sid, session)
  call('HSET', base .. ':w', sid .. ':m', string.rep('x', session.count - lost_count))
  return {'OK', finish_begin(base, sid, session, now)}
end)

-- Which ranges of a memory segment are taken. Base key {st:<number of the segment>}.
-- The memory is cut into slabs; a run of contiguous ones is carved into equal slots (core/pool_layout.py) and goes back
-- when all of them are free. A range is one taken slot, under an id that is given once and rises, also over a rollback
-- of the server.
--   base           p:id newest id; p:slabs, p:used numbers of slabs; p:m:<n> a page of the map of slabs, one byte
--                  each, '1' while it is in use; no run goes over the end of a page; p:page the first page with room;
--                  p:c:<slot bytes> ranges and p:s:<slot bytes> slabs of a size; p:gone the segment is lost;
--                  p:home its memory is given out by the index in a process of that node
--   base .. ':i'   id div 64 (6 bytes) -> first id mod 64 (1), then 6 bytes an id: run + 1 (3), slot (3); 0 = free
--   base .. ':s'   run, named by its first slab (4 bytes) -> slot bytes (6), slabs (3), slots taken (4), and one bit a
--                  slot where it has several
--   base .. ':h<slot bytes>'  runs with room, by number
--   base .. ':l'   lease -> first id (8), ids (2), what they are for     base .. ':ld'  lease by insert-by time

local BUCKET, PLACE = 64, 6
local FREE_PLACE = '\0\0\0\0\0\0'
local LIFE_MARGIN_US = 2000000  -- the clock of a promoted replica may be this far behind that of its master
local FEW = 8                   -- runs with room that a look at first gets
local PAGE = 1024               -- slabs of a page of the map

local function pool_number(number) return string.format('%.0f', number) end

-- A string with single bytes or pieces of it replaced: {position -> piece}, all pieces of one length.
local function spliced(text, pieces, length)
  local order, parts, from = {}, {}, 1
  for at in pairs(pieces) do order[#order + 1] = at end
  table.sort(order)
  for _, at in ipairs(order) do
    parts[#parts + 1] = sub(text, from, at - 1)
    parts[#parts + 1] = pieces[at]
    from = at + length
  end
  parts[#parts + 1] = sub(text, from)
  return concat(parts)
end

-- The runs of a segment during one call: read when they are needed, changed in memory, written by `store`.
-- first_page: the first page of the map with room, as far as is known.
local function pool_runs(base, total, first_page)
  local known, dirty, rooms, delta, fields = {}, {}, {}, {}, {}
  local pages, marks = {}, {}  -- of the map; what changes in each
  local self = {}

  local function add(field, amount) delta[field] = (delta[field] or 0) + amount end

  local function mark_slabs(number, span, value)
    local page = math.floor(number / PAGE)
    marks[page] = marks[page] or {}
    for at = number % PAGE + 1, number % PAGE + span do marks[page][at] = value end
    if value == '0' and page < first_page then first_page, fields['p:page'] = page, page end
  end

  -- A page of the map with all that was marked by now; nil behind the last one.
  local function page_of(page)
    if page * PAGE >= total then return nil end
    local text = pages[page] or call('HGET', base, 'p:m:' .. page)
    text = text or string.rep('0', math.min(PAGE, total - page * PAGE))
    if marks[page] then
      text = spliced(text, marks[page], 1)
      fields['p:m:' .. page], marks[page] = text, nil
    end
    pages[page] = text
    return text
  end

  -- The first free slabs side by side from a position (page, byte) on, which moves behind them.
  local function free_slabs(span, from)
    if not from.page then
      while first_page * PAGE < total and not string.find(page_of(first_page), '0', 1, true) do
        first_page = first_page + 1
        fields['p:page'] = first_page
      end
      from.page, from.at = first_page, 1
    end
    while true do
      local text = (from.at > 1 and pages[from.page]) or page_of(from.page)
      if not text then return nil end
      local at = string.find(text, string.rep('0', span), from.at, true)
      if at then
        from.at = at + span
        return from.page * PAGE + at - 1
      end
      from.page, from.at = from.page + 1, 1
    end
  end

  function self.get(number)
    local run = known[number]
    if run then return run end
    local raw = call('HGET', base .. ':s', struct.pack('>I4', number))
    if not raw then return nil end
    local slot, span, taken = struct.unpack('>I6I3I4', raw)
    run = {slot = slot, span = span, taken = taken, bits = sub(raw, 14)}
    known[number] = run
    return run
  end

  -- A fresh run where the slabs are known to be free.
  function self.open(number, class)
    local run, rest = {slot = class.slot, span = class.span, taken = 0, bits = ''}, class.slots % 8
    if class.slots > 1 then
      run.bits = string.rep('\0', math.floor(class.slots / 8)) .. (rest > 0 and char(256 - 2 ^ rest) or '')
    end
    known[number], dirty[number] = run, true
    mark_slabs(number, run.span, '1')
    add('p:used', run.span)
    add('p:s:' .. pool_number(run.slot), run.span)
    return run
  end

  -- Marks slots of a run (number -> true) as taken or free. The slabs of an emptied one go back.
  function self.mark(number, run, slots, count, is_taken)
    dirty[number] = true
    run.taken = run.taken + (is_taken and count or -count)
    add('p:c:' .. pool_number(run.slot), is_taken and count or -count)
    if run.taken == 0 then
      known[number] = {is_gone = true, slot = run.slot}
      mark_slabs(number, run.span, '0')
      add('p:used', -run.span)
      add('p:s:' .. pool_number(run.slot), -run.span)
    elseif run.bits ~= '' then
      local bytes = {}
      for slot in pairs(slots) do
        local at = math.floor(slot / 8) + 1
        local value = bytes[at] or byte(run.bits, at)
        bytes[at] = value + (is_taken and 1 or -1) * 2 ^ (slot % 8)
      end
      for at, value in pairs(bytes) do bytes[at] = char(value) end
      run.bits = spliced(run.bits, bytes, 1)
    end
  end

  -- Takes up to n slots of a run, lowest first: emit(number, slot, count).
  function self.fill(number, run, n, emit)
    dirty[number] = true
    if run.bits == '' then
      run.taken = 1
      add('p:c:' .. pool_number(run.slot), 1)
      emit(number, 0, 1)
      return 1
    end
    local bits, bytes, got = run.bits, {}, 0
    local at = string.find(bits, '[^\255]')
    while at and got < n do
      local value, slot = byte(bits, at), at * 8 - 8
      if value == 0 and n - got >= 8 then
        value, got = 255, got + 8
        emit(number, slot, 8)
      else
        for place = 0, 7 do
          if got < n and math.floor(value / 2 ^ place) % 2 == 0 then
            value, got = value + 2 ^ place, got + 1
            emit(number, slot + place, 1)
          end
        end
      end
      bytes[at] = char(value)
      at = string.find(bits, '[^\255]', at + 1)
    end
    run.bits, run.taken = spliced(bits, bytes, 1), run.taken + got
    add('p:c:' .. pool_number(run.slot), got)
    return got
  end

  -- The lowest run with room for slots of a size.
  local function with_room(slot)
    local room = rooms[slot]
    if not room then
      local list = call('ZRANGEBYSCORE', base .. ':h' .. pool_number(slot), '-inf', '+inf', 'LIMIT', 0, FEW)
      room = {at = 1, list = list}
      rooms[slot] = room
    end
    while true do
      if room.at == FEW + 1 and #room.list == FEW then
        local more = call('ZRANGEBYSCORE', base .. ':h' .. pool_number(slot), '-inf', '+inf', 'LIMIT', FEW, 512)
        for _, member in ipairs(more) do room.list[#room.list + 1] = member end
      end
      local member = room.list[room.at]
      if not member then return nil end
      local number = struct.unpack('>I4', member)
      local run = self.get(number)
      if run and run.bits ~= '' and string.find(run.bits, '[^\255]') then return number, run end
      room.at = room.at + 1
    end
  end

  -- Takes n slots of a class; false when there is no room (nothing may be stored then).
  function self.take(class, n, emit)
    local from = {}
    while n > 0 do
      local number, run = with_room(class.slot)
      if not number then
        number = free_slabs(class.span, from)
        if not number then return false end
        run = self.open(number, class)
        -- What is left of it serves a later request of this call too.
        local list = rooms[class.slot].list
        list[#list + 1] = struct.pack('>I4', number)
      end
      n = n - self.fill(number, run, n, emit)
    end
    return true
  end

  function self.is_free(number, span)
    local at = number % PAGE
    return sub(page_of(math.floor(number / PAGE)) or '', at + 1, at + span) == string.rep('0', span)
  end

  function self.store(more)
    for field, value in pairs(more) do fields[field] = value end
    for page in pairs(marks) do page_of(page) end
    for number in pairs(dirty) do
      local run, member = known[number], struct.pack('>I4', number)
      local room = base .. ':h' .. pool_number(run.slot)
      if run.is_gone then
        call('HDEL', base .. ':s', member)
        call('ZREM', room, member)
      else
        call('HSET', base .. ':s', member, struct.pack('>I6I3I4', run.slot, run.span, run.taken) .. run.bits)
        if run.bits ~= '' and string.find(run.bits, '[^\255]') then
          call('ZADD', room, number, member)
        else
          call('ZREM', room, member)
        end
      end
    end
    for field, amount in pairs(delta) do
      if amount ~= 0 and call('HINCRBY', base, field, pool_number(amount)) == 0 then call('HDEL', base, field) end
    end
    for field, value in pairs(fields) do call('HSET', base, field, value) end
  end

  return self
end

-- Notes the places of ids that follow each other. places: 6 bytes each.
local function pool_note_ids(base, first, places)
  local ids, at = base .. ':i', 1
  while at <= #places do
    local bucket, low = math.floor(first / BUCKET), first % BUCKET
    local field = struct.pack('>I6', bucket)
    local count = math.min(BUCKET - low, (#places - at + 1) / PLACE)
    local new = sub(places, at, at + count * PLACE - 1)
    -- Only the first bucket may hold ids already: those of the call before.
    local value = at == 1 and call('HGET', ids, field)
    if value then
      local missing = low - byte(value) - (#value - 1) / PLACE
      new = value .. string.rep(FREE_PLACE, missing) .. new
    else
      new = char(low) .. new
    end
    call('HSET', ids, field, new)
    first, at = first + count, at + count * PLACE
  end
end

-- kvcm_pool_take: takes ranges under a lease, all or none. ARGV: gen, lease, insert-by ms, what they are for, slabs of
-- the segment, then slot bytes, slabs and slots of a run, number of ranges, of 512 ranges together at most.
-- Returns {'OK', first id, free slabs, (run, first slot, count) as 4-byte numbers in the order asked for: ids follow
-- each other}; {'FULL', free slabs}; {'LATE'} after the insert-by time; {'GONE'} of a lost segment; {'HOME', node}.
register('kvcm_pool_take', function(keys, args)
  local base = keys[1]
  local known = call('HMGET', base, 'p:id', 'p:slabs', 'p:gone', 'p:home', 'gen', 'p:used', 'p:page')
  local refused = enter(base, args[1])
  if refused then return refused end
  local time = call('TIME')
  local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
  if now_us > tonumber(args[3]) * 1000 then return {'LATE'} end
  if known[3] then return {'GONE'} end
  if known[4] then return {'HOME', known[4]} end
  local total = tonumber(args[5])
  local runs = pool_runs(base, total, tonumber(known[7] or '0'))
  local taken, last_run, last_slot, last_count = {}, nil, 0, 0
  local places, count = {}, 0
  local function close()
    if last_run then taken[#taken + 1] = struct.pack('>I4I4I4', last_run, last_slot, last_count) end
    last_run = nil
  end
  local function emit(run, slot, n)
    if run == last_run and slot == last_slot + last_count then
      last_count = last_count + n
    else
      close()
      last_run, last_slot, last_count = run, slot, n
    end
    for at = slot, slot + n - 1 do
      count = count + 1
      places[count] = struct.pack('>I3I3', run + 1, at)
    end
  end
  for i = 6, #args, 4 do
    local class = {slot = tonumber(args[i]), span = tonumber(args[i + 1]), slots = tonumber(args[i + 2])}
    if not runs.take(class, tonumber(args[i + 3]), emit) then
      return {'FULL', total - tonumber(known[6] or '0')}
    end
    close()
  end
  local is_same_life = known[5] == string.match(args[1], '^%d+')
  local first = math.max(tonumber(known[1] or '0') + 1, is_same_life and now_us or now_us + LIFE_MARGIN_US)
  runs.store({['p:id'] = pool_number(first + count - 1), ['p:slabs'] = not known[2] and args[5] or nil})
  pool_note_ids(base, first, concat(places))
  call('HSET', base .. ':l', args[2], struct.pack('>I8I2', first, count) .. args[4])
  call('ZADD', base .. ':ld', args[3], args[2])
  return {'OK', first, total - tonumber(call('HGET', base, 'p:used') or '0'), concat(taken)}
end)

-- kvcm_pool_free: these ranges may be given out again. ARGV: gen, ids (8 bytes each, 512 at most). An id that is not
-- taken changes nothing. Returns the number of those that were.
register('kvcm_pool_free', function(keys, args)
  local base, blob = keys[1], args[2]
  local refused = enter(base, args[1])
  if refused then return refused end
  local segment = call('HMGET', base, 'p:slabs', 'p:page')
  if not segment[1] or #blob == 0 then return 0 end
  local ids, fields, lows = base .. ':i', {}, {}
  for at = 1, #blob, 8 do
    local id = struct.unpack('>I8', blob, at)
    local field = struct.pack('>I6', math.floor(id / BUCKET))
    if not lows[field] then
      lows[field] = {}
      fields[#fields + 1] = field
    end
    lows[field][id % BUCKET] = true
  end
  local by_run, count = {}, 0
  for i, value in ipairs(call('HMGET', ids, unpack(fields))) do
    if value then
      local base_low, cleared = byte(value), {}
      for low in pairs(lows[fields[i]]) do
        local at = 2 + (low - base_low) * PLACE
        local place = at > 1 and sub(value, at, at + PLACE - 1) or ''
        if place ~= '' and place ~= FREE_PLACE then
          cleared[at], count = FREE_PLACE, count + 1
          local run, slot = struct.unpack('>I3I3', place)
          by_run[run - 1] = by_run[run - 1] or {n = 0, slots = {}}
          local one = by_run[run - 1]
          one.n, one.slots[slot] = one.n + 1, true
        end
      end
      if next(cleared) then
        local left = spliced(value, cleared, PLACE)
        if string.find(left, '[^%z]', 2) then
          call('HSET', ids, fields[i], left)
        else
          call('HDEL', ids, fields[i])
        end
      end
    end
  end
  local runs = pool_runs(base, tonumber(segment[1]), tonumber(segment[2] or '0'))
  for number, one in pairs(by_run) do runs.mark(number, runs.get(number), one.slots, one.n, false) end
  if count > 0 then runs.store({}) end
  return count
end)

-- kvcm_pool_restore: takes a range that something refers to although it is free, as a rollback may leave it.
-- ARGV: gen, id, run, slot, slot bytes, slabs and slots of a run, slabs of the segment. Returns 1 when the range is the
-- id's now, 0 when another has it.
register('kvcm_pool_restore', function(keys, args)
  local base, id, number, slot = keys[1], tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  local refused = enter(base, args[1])
  if refused then return refused end
  local class = {slot = tonumber(args[5]), span = tonumber(args[6]), slots = tonumber(args[7])}
  local total = tonumber(args[8])
  local known = call('HMGET', base, 'p:page', 'p:gone', 'p:id')
  if known[2] then return 0 end
  local runs = pool_runs(base, total, tonumber(known[1] or '0'))
  local run = runs.get(number)
  if not run then
    if not runs.is_free(number, class.span) then return 0 end
    run = runs.open(number, class)
  elseif run.slot ~= class.slot or run.bits == '' or
      math.floor(byte(run.bits, math.floor(slot / 8) + 1) / 2 ^ (slot % 8)) % 2 == 1 then
    return 0
  end
  local field, low = struct.pack('>I6', math.floor(id / BUCKET)), id % BUCKET
  local place = struct.pack('>I3I3', number + 1, slot)
  local value = call('HGET', base .. ':i', field) or char(low)
  local first = byte(value)
  if low < first then value, first = char(low) .. string.rep(FREE_PLACE, first - low) .. sub(value, 2), low end
  local at = 2 + (low - first) * PLACE
  if at + PLACE - 1 <= #value and sub(value, at, at + PLACE - 1) ~= FREE_PLACE then return 0 end
  value = value .. string.rep(FREE_PLACE, (at + PLACE - 1 - #value) / PLACE)
  call('HSET', base .. ':i', field, spliced(value, {[at] = place}, PLACE))
  runs.mark(number, run, {[slot] = true}, 1, true)
  runs.store({['p:id'] = pool_number(math.max(id, tonumber(known[3] or '0'))), ['p:slabs'] = args[8]})
  return 1
end)

-- kvcm_pool_settle: these leases are over; what becomes of their ranges is on record elsewhere. ARGV: gen, leases…
register('kvcm_pool_settle', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  for i = 2, #args do
    call('HDEL', base .. ':l', args[i])
    call('ZREM', base .. ':ld', args[i])
  end
  return #args - 1
end)

-- kvcm_pool_drop: the segment is lost: nothing is taken of it any more, and nothing can be. ARGV: gen.
register('kvcm_pool_drop', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  for _, field in ipairs(call('HKEYS', base)) do
    if sub(field, 1, 4) == 'p:s:' then call('UNLINK', base .. ':h' .. sub(field, 5)) end
    if sub(field, 1, 2) == 'p:' then call('HDEL', base, field) end
  end
  call('UNLINK', base .. ':i', base .. ':s', base .. ':l', base .. ':ld')
  call('HSET', base, 'p:gone', '1')
  return 1
end)

-- kvcm_pool_home: the index in a process of this node gives out the segment's memory from now on. ARGV: gen, node.
-- Returns 1, or 0 while ranges are taken here or another node does.
register('kvcm_pool_home', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  local known = call('HMGET', base, 'p:home', 'p:used')
  if known[1] then return known[1] == args[2] and 1 or 0 end
  if known[2] then return 0 end
  call('HSET', base, 'p:home', args[2])
  return 1
end)

-- Eviction: SERVING -> DELETING of what a reclaim run chose, each run of blocks from its tail (index/evicting.py).

local LOOK = 512 -- blocks that one call reads, so that nobody waits long for it

-- The location of a record that belongs to a run: where it begins and ends, its status, ref, bytes and time; nil when
-- there is none. Raises an error where the record is not whole.
local function location_of(record, run)
  local at, length = 1, #record
  while at <= length do
    local status, ref, owner, size, time, wire = struct.unpack('>BxI3c10I6I6xxxxxxI3', record, at)
    local stop = at + HEADER + wire - 1
    if stop > length then error('a record ends before its last location does') end
    if owner == run then return at, stop, status, ref, size, time end
    at = stop + 1
  end
  return nil
end

-- What goes of one run, from its tail, is added to `going`: {key, begin, end, ref, bytes, run}. Returns how many blocks
-- stay because they, or one behind them, are being written or too young. Changes nothing else.
local function choose(going, run, blob, records, most, written_before, wanted)
  local left = most
  for at = #blob - 7, 1, -8 do
    if left == 0 then break end
    local key = sub(blob, at, at + 7)
    local record = records[key]
    if record then
      local begins, ends, status, ref, size, time = location_of(record, run)
      if status == WRITING or (status == SERVING and time > written_before) then
        return math.min(left, (at + 7) / 8)
      elseif status == SERVING then
        if not wanted or wanted[ref % 65536] then
          left = left - 1
          going[#going + 1] = {key, begins, ends, ref, size, run}
        end
      elseif status and status ~= DELETING then
        error('a location has the state ' .. status)
      end
    end
  end
  return 0
end

-- kvcm_evict: ARGV: gen, id of the reclaim run (8 bytes), delay ms, ms up to which a block must have been finished,
-- storage numbers (2 bytes each; '' = any), then for each run its name, the highest score it may have, and how many
-- of its blocks go at most. Returns {how many of the runs were dealt with, blocks passed over as young, names of runs
-- that were used meanwhile, (name, reason) of runs that cannot be read, (storage ref, blocks, bytes) of what goes}.
register('kvcm_evict', function(keys, args)
  local base, id, now = keys[1], args[2], now_ms()
  local refused = enter(base, args[1])
  if refused then return refused end
  local due, written_before, wanted = now + tonumber(args[3]), tonumber(args[4]), nil
  if args[5] ~= '' then
    wanted = {}
    for i = 1, #args[5], 2 do wanted[struct.unpack('>I2', args[5], i)] = true end
  end
  local names = {}
  for i = 6, #args, 3 do names[#names + 1] = args[i] end
  local blobs, scores = call('HMGET', base .. ':n', unpack(names)), call('ZMSCORE', base .. ':r', unpack(names))
  local used, poisoned, fields, looked, seen, done = {}, {}, {}, {}, {}, 0
  for i, name in ipairs(names) do
    local blob = blobs[i]
    -- Nothing is marked yet: a run that comes again would give the same blocks a second time.
    if seen[name] then break end
    seen[name] = true
    if blob and scores[i] then
      if tonumber(scores[i]) > tonumber(args[i * 3 + 4]) then
        used[#used + 1] = name
      elseif #blob % 8 ~= 0 then
        poisoned[#poisoned + 1] = name
        poisoned[#poisoned + 1] = 'its list of blocks has ' .. #blob .. ' bytes'
      else
        if #fields > 0 and #fields + #blob / 8 > LOOK then break end
        for at = 1, #blob, 8 do fields[#fields + 1] = sub(blob, at, at + 7) end
        looked[#looked + 1] = i
      end
    end
    done = i
  end
  local records, young, going = {}, 0, {}
  if #fields > 0 then
    for i, record in ipairs(call('HMGET', base .. ':b', unpack(fields))) do records[fields[i]] = record end
  end
  for _, i in ipairs(looked) do
    local before = #going
    local is_whole, found = pcall(choose, going, names[i], blobs[i], records, tonumber(args[i * 3 + 5]),
      written_before, wanted)
    if is_whole then
      young = young + found
    else
      for at = #going, before + 1, -1 do going[at] = nil end
      poisoned[#poisoned + 1] = names[i]
      poisoned[#poisoned + 1] = tostring(found)
    end
  end
  -- All that could fail was read by now: from here on there are changes.
  local dues, values, sets, place, dropped, told, totals = {}, {}, {}, {}, {}, {}, {}
  local marked, flag = char(DELETING), 'e' .. id .. char(DELETING)
  for n, one in ipairs(going) do
    local key, begins, ends, ref = one[1], one[2], one[3], one[4]
    local at, total = place[key], totals[ref]
    local record = at and sets[at] or records[key]
    local rest, member = sub(record, begins + 1, ends), sub(record, begins + 5, begins + 12) .. key
    dues[n * 2 - 1], dues[n * 2] = due, member
    values[n * 2 - 1], values[n * 2] = member, flag .. rest
    if not at then
      dropped[#dropped + 1] = key
      at = #dropped * 2
      sets[at - 1], place[key] = key, at
    end
    if begins > 1 or ends < #record then rest = rest .. sub(record, ends + 1) end
    sets[at] = sub(record, 1, begins - 1) .. marked .. rest
    told[one[6]] = true
    if not total then
      total = {0, 0}
      totals[ref] = total
    end
    total[1], total[2] = total[1] + 1, total[2] + one[5]
  end
  local usage, accounts, by_ref = usage_delta(), run_accounts(), {}
  for ref, total in pairs(totals) do
    usage.moved(ref, 's', 'p', total[2], total[1])
    accounts.add(id, 'm', total[1], total[2])
    by_ref[#by_ref + 1] = ref
    by_ref[#by_ref + 1] = total[1]
    by_ref[#by_ref + 1] = string.format('%d', total[2])
  end
  if #going > 0 then
    call('ZADD', base .. ':d', unpack(dues))
    call('HSET', base .. ':p', unpack(values))
    call('HSET', base .. ':b', unpack(sets))
    leave(base, usage, {drop = dropped}, {drop = told})
    accounts.apply(base)
    note_gone(base, 'reclaim:' .. hex(id), dropped)
  end
  return {done, young, used, poisoned, by_ref}
end)

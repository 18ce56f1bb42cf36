-- Eviction: SERVING -> DELETING of what a reclaim run chose, each run of blocks from its tail (index/evicting.py).

local LOOK = 512 -- blocks that one call reads, so that nobody waits long for it

-- Where the location lies that belongs to a run. Raises an error where the record is not whole.
local function location_of(record, run)
  local at, length = 1, #record
  while at <= length do
    local stop = at + HEADER + struct.unpack('>I3', record, at + 33) - 1
    if stop > length then error('a record ends before its last location does') end
    if sub(record, at + 5, at + 14) == run then return at, stop end
    at = stop + 1
  end
  return nil
end

-- What goes of one run, from its tail: a list of {key, begin, end, ref, bytes}, and how many blocks stay because
-- one behind them, or they themselves, are being written or too young. Changes nothing.
local function choose(run, blob, records, most, written_before, wanted)
  local chosen = {}
  for at = #blob - 7, 1, -8 do
    if #chosen >= most then break end
    local key = sub(blob, at, at + 7)
    local begins, ends
    if records[key] then begins, ends = location_of(records[key], run) end
    if begins then
      local status, ref, size, time = struct.unpack('>BxI3xxxxxxxxxxI6I6', records[key], begins)
      if status == WRITING or (status == SERVING and time > written_before) then
        return chosen, math.min(most - #chosen, (at + 7) / 8)
      elseif status == SERVING then
        if not wanted or wanted[ref % 65536] then chosen[#chosen + 1] = {key, begins, ends, ref, size} end
      elseif status ~= DELETING then
        error('a location has the state ' .. status)
      end
    end
  end
  return chosen, 0
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
  local used, poisoned, fields, looked, done = {}, {}, {}, {}, 0
  for i, name in ipairs(names) do
    local blob = blobs[i]
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
    local is_whole, chosen, passed = pcall(choose, names[i], blobs[i], records, tonumber(args[i * 3 + 5]),
      written_before, wanted)
    if is_whole then
      young = young + passed
      for _, one in ipairs(chosen) do
        one.run = names[i]
        going[#going + 1] = one
      end
    else
      poisoned[#poisoned + 1] = names[i]
      poisoned[#poisoned + 1] = tostring(chosen)
    end
  end
  -- All that could fail was read by now: from here on there are changes.
  local dues, values, sets, changed, told, totals = {}, {}, {}, {}, {}, {}
  for _, one in ipairs(going) do
    local key, begins, ends, ref = one[1], one[2], one[3], one[4]
    local record, marked = records[key], char(DELETING)
    local entry = marked .. sub(record, begins + 1, ends)
    local member, total = sub(entry, 6, 13) .. key, totals[ref]
    dues[#dues + 1] = due
    dues[#dues + 1] = member
    values[#values + 1] = member
    values[#values + 1] = 'e' .. id .. entry
    records[key] = sub(record, 1, begins - 1) .. entry .. sub(record, ends + 1)
    changed[key], told[one.run] = true, true
    if not total then
      total = {0, 0}
      totals[ref] = total
    end
    total[1], total[2] = total[1] + 1, total[2] + one[5]
  end
  local dropped, usage, accounts, by_ref = {}, usage_delta(), run_accounts(), {}
  for key in pairs(changed) do
    dropped[#dropped + 1] = key
    sets[#sets + 1] = key
    sets[#sets + 1] = records[key]
  end
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

-- Per storage, base key {st:<number>}: freed slots of slot files and the list of orphans.
--   base .. ':f' file path -> slots in the file (2 bytes) + one byte a slot, '1' when freed
--   base .. ':o' member -> location entry whose metadata was dropped       base: ob, on = their bytes and number

-- kvcm_slots_free: ARGV: file, slots in the file, '1' for a second pass, freed slots…
-- Setting a bit again changes nothing. A second pass over a file without notes means that the file went before:
-- whatever a late writer left there may go too.
-- Returns 1 when every slot of the file is freed: the file may go, then kvcm_slots_forget.
register('kvcm_slots_free', function(keys, args)
  local files, file, slots = keys[1] .. ':f', args[1], tonumber(args[2])
  local raw = call('HGET', files, file)
  if args[3] == '1' and not raw then return 1 end
  local bits = {}
  for i = 1, slots do bits[i] = raw and sub(raw, 2 + i, 2 + i) or '0' end
  for i = 4, #args do bits[tonumber(args[i]) + 1] = '1' end
  local joined = concat(bits)
  call('HSET', files, file, struct.pack('>I2', slots) .. joined)
  return string.find(joined, '0', 1, true) and 0 or 1
end)

-- kvcm_slots_forget: ARGV = files that were unlinked and whose deletions are off the pending list.
register('kvcm_slots_forget', function(keys, args)
  return call('HDEL', keys[1] .. ':f', unpack(args))
end)

-- kvcm_orphan: ARGV: (member, bytes, entry) triples.
register('kvcm_orphan', function(keys, args)
  local base = keys[1]
  for i = 1, #args, 3 do
    if call('HSETNX', base .. ':o', args[i], args[i + 2]) == 1 then
      call('HINCRBY', base, 'ob', args[i + 1])
      call('HINCRBY', base, 'on', 1)
    end
  end
  return 1
end)

-- kvcm_orphan_drop: ARGV: (member, bytes) pairs of orphans that were deleted. Returns how many were on the list.
register('kvcm_orphan_drop', function(keys, args)
  local base, dropped = keys[1], 0
  for i = 1, #args, 2 do
    if call('HDEL', base .. ':o', args[i]) == 1 then
      call('HINCRBY', base, 'ob', -tonumber(args[i + 1]))
      call('HINCRBY', base, 'on', -1)
      dropped = dropped + 1
    end
  end
  return dropped
end)

-- Copies between storages: a write session whose blocks come from where they are served now (2_sessions.lua flips them).

-- kvcm_copy: an OPEN session copies its blocks from these locations. ARGV: gen, sid, '1' when the sources go with the
-- flip, ms until they are deleted, ids of the sources, one a key. Returns {'OK'} or {'GONE'}.
register('kvcm_copy', function(keys, args)
  local base, sid = keys[1], args[2]
  local refused = enter(base, args[1])
  if refused then return refused end
  local session = session_header(base, sid)
  if not session or session.state ~= OPEN or now_ms() > session.deadline then return {'GONE'} end
  if #args[5] ~= session.count * 8 then return redis.error_reply('ERR one source a key') end
  call('HSET', base .. ':w', sid .. ':s', struct.pack('>BI6', tonumber(args[3]), tonumber(args[4])) .. args[5])
  return {'OK'}
end)

-- kvcm_shed: marks locations DELETING whose blocks are served from another place. ARGV: gen, delay ms, packed keys,
-- then for each the ids of the location that goes and of the one that stays: both must be SERVING.
-- Returns {number of locations, their bytes}.
register('kvcm_shed', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  local due, chunk = now_ms() + tonumber(args[2]), unpack_keys(args[3])
  if #chunk == 0 then return {0, 0} end
  local records, sets, dropped, told = call('HMGET', base .. ':b', unpack(chunk)), {}, {}, {}
  local usage, bytes = usage_delta(), 0
  for i, key in ipairs(chunk) do
    local record, at = records[i], i * 16 - 15
    local going = record and location_at(record, sub(args[4], at, at + 7), SERVING)
    if going and location_at(record, sub(args[4], at + 8, at + 15), SERVING) then
      local run
      bytes = bytes + size_at(record, going)
      sets[#sets + 1] = key
      sets[#sets + 1], run = retire(base, usage, key, record, going, due)
      dropped[#dropped + 1], told[run] = key, true
    end
  end
  if #dropped > 0 then
    call('HSET', base .. ':b', unpack(sets))
    leave(base, usage, {drop = dropped}, {drop = told})
    note_gone(base, 'moved', dropped)
  end
  return {#dropped, string.format('%d', bytes)}
end)

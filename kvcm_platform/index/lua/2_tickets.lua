-- Tickets: write sessions over several shards. The ticket decides, once, how the session ends; each shard's own
-- session then follows. All tickets of an instance are in its shard 0.
--   {tag}:t   sid -> state 1, deadline 6, count 3; sid .. ':k' -> all keys; sid .. ':m' -> verdict;
--             sid .. ':g' -> new keys not known to be inserted yet; '#' -> their sum over all tickets
--   {tag}:td  sid by deadline; a decided one is due soon, should nobody carry it out
-- A verdict is 'F' (everything failed) or one character a key: '1' written, '0' failed, '-' never the session's.

-- The keys of a ticket count as announced no more.
local function settle(base, sid)
  local growth = call('HGET', base .. ':t', sid .. ':g')
  if not growth then return end
  call('HDEL', base .. ':t', sid .. ':g')
  if call('HINCRBY', base .. ':t', '#', -tonumber(growth)) == 0 then call('HDEL', base .. ':t', '#') end
end

-- kvcm_ticket_open: ARGV: gen, sid, deadline, keys, max sessions, number of new keys.
-- Returns {'OK', new keys announced by all tickets, this one included} | {'SESSIONS'} | {'LATE'}. Who counts the keys
-- of all shards after this and adds what is announced can let no limit be passed, however many do so at once.
register('kvcm_ticket_open', function(keys, args)
  local base, sid, deadline = keys[1], args[2], tonumber(args[3])
  local refused = enter(base, args[1])
  if refused then return refused end
  if now_ms() > deadline then return {'LATE'} end
  if call('ZCARD', base .. ':td') >= tonumber(args[5]) then return {'SESSIONS'} end
  call('HSET', base .. ':t', sid, struct.pack('>BI6I3', OPEN, deadline, #args[4] / 8), sid .. ':k', args[4],
    sid .. ':g', args[6])
  call('ZADD', base .. ':td', deadline, sid)
  return {'OK', call('HINCRBY', base .. ':t', '#', args[6])}
end)

-- kvcm_ticket_placed: all keys of the session are inserted. ARGV: gen, sid.
register('kvcm_ticket_placed', function(keys, args)
  local refused = enter(keys[1], args[1])
  if refused then return refused end
  settle(keys[1], args[2])
  return 1
end)

-- kvcm_ticket_decide: ARGV: gen, sid, verdict, when: 'before' the deadline (the client), 'after' it (the sweeper), or
-- 'any'. Returns 1 for the one caller that decided.
register('kvcm_ticket_decide', function(keys, args)
  local base, sid, when = keys[1], args[2], args[4]
  local refused = enter(base, args[1])
  if refused then return refused end
  local raw = call('HGET', base .. ':t', sid)
  if not raw then return 0 end
  local state, deadline, count = struct.unpack('>BI6I3', raw)
  local now = now_ms()
  if state ~= OPEN or (when == 'before' and now > deadline) or (when == 'after' and now <= deadline) then return 0 end
  call('HSET', base .. ':t', sid, struct.pack('>BI6I3', FINISHING, deadline, count), sid .. ':m', args[3])
  call('ZADD', base .. ':td', math.min(deadline, now + 2000), sid)
  return 1
end)

-- kvcm_ticket_drop: the verdict was carried out on every shard. ARGV: gen, sid.
register('kvcm_ticket_drop', function(keys, args)
  local base, sid = keys[1], args[2]
  local refused = enter(base, args[1])
  if refused then return refused end
  settle(base, sid)
  call('HDEL', base .. ':t', sid, sid .. ':k', sid .. ':m')
  return call('ZREM', base .. ':td', sid)
end)

-- Deletions that are set aside: their storage cannot be used now, and nobody looks at them until it is tried again.
-- They stay in {tag}:d, behind all that has a time: the storage's number + 1 in steps of ASIDE (index/pending.py).
local ASIDE = 8796093022208       -- 2 ^ 43, later than any time in ms

-- kvcm_aside: what is set aside for one storage, as kvcm_due gives it. ARGV: the storage's number, limit.
register('kvcm_aside', function(keys, args)
  local base, from = keys[1], (tonumber(args[1]) + 1) * ASIDE
  local members = call('ZRANGEBYSCORE', base .. ':d', string.format('%.0f', from), string.format('(%.0f', from + ASIDE),
    'LIMIT', 0, args[2])
  local reply = {now_ms(), 0}
  if #members > 0 then
    local values = call('HMGET', base .. ':p', unpack(members))
    for i, member in ipairs(members) do
      reply[#reply + 1] = member
      reply[#reply + 1] = values[i] or ''
    end
  end
  return reply
end, {'no-writes'})

-- kvcm_asides: the numbers of the storages for which anything is set aside, highest first.
register('kvcm_asides', function(keys)
  local numbers, below = {}, '+inf'
  while true do
    local found = call('ZREVRANGEBYSCORE', keys[1] .. ':d', below, string.format('%.0f', ASIDE), 'WITHSCORES', 'LIMIT', 0, 1)
    if #found == 0 then return numbers end
    local step = math.floor(tonumber(found[2]) / ASIDE)
    numbers[#numbers + 1] = step - 1
    below = string.format('(%.0f', step * ASIDE)
  end
end, {'no-writes'})

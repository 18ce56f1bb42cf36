-- How often runs were used lately: {tag}:h those on some storages, for groups whose policy brings blocks back (4.3 of
-- the design), {tag}:u all, for groups that give back what is used least. Run -> uses, each weighted by
-- 2 ^ (its time / HALF_LIFE): so all older ones have decayed without being touched. Of too many runs the coldest are
-- forgotten. The base's fields 'heat' and 'uses' are the epochs of the weights.
local HALF_LIFE = 600000          -- ms
local HEAT_EPOCH = 256            -- half-lives after which weights begin anew, and with them the counts
local HOT_RUNS = 65536
local USED_RUNS = 1048576

local function weight_now()
  local halves = now_ms() / HALF_LIFE
  local epoch = math.floor(halves / HEAT_EPOCH)
  return 2 ^ (halves - epoch * HEAT_EPOCH), string.format('%d', epoch)
end

local function is_on(base, run, wanted)
  local blob = call('HGET', base .. ':n', run)
  local record = blob and call('HGET', base .. ':b', sub(blob, 1, 8))
  local is_wanted = false
  if record then
    each_location(record, function(at, _, status, ref)
      if status == SERVING and sub(record, at + 5, at + 14) == run then is_wanted = wanted[ref % 65536] end
    end)
  end
  return is_wanted
end

-- Adds packed (run 10, uses 4) … to a sorted set; new members only where `is_new(run)`. Returns how many are noted.
local function note_uses(base, name, field, blob, most, is_new)
  local weight, epoch = weight_now()
  if call('HGET', base, field) ~= epoch then
    call('DEL', name)
    call('HSET', base, field, epoch)
  end
  for at = 1, #blob, 14 do
    local run, uses = struct.unpack('>c10I4', sub(blob, at, at + 13))
    if call('ZSCORE', name, run) or is_new(run) then
      call('ZINCRBY', name, string.format('%.17g', weight * uses), run)
    end
  end
  local count = call('ZCARD', name)
  if count > most then call('ZREMRANGEBYRANK', name, 0, count - most - 1) end
  return math.min(count, most)
end

-- kvcm_heat: notes uses. ARGV: gen, numbers of the storages whose runs count (2 bytes each), packed (run 10, uses 4) …
-- Returns the number of runs that are noted now.
register('kvcm_heat', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  local wanted = {}
  for i = 1, #args[2], 2 do wanted[struct.unpack('>I2', args[2], i)] = true end
  return note_uses(base, base .. ':h', 'heat', args[3], HOT_RUNS, function(run) return is_on(base, run, wanted) end)
end)

-- kvcm_uses: the same of runs on any storage. ARGV: gen, packed (run 10, uses 4) …
register('kvcm_uses', function(keys, args)
  local base = keys[1]
  local refused = enter(base, args[1])
  if refused then return refused end
  return note_uses(base, base .. ':u', 'uses', args[2], USED_RUNS,
    function(run) return call('HEXISTS', base .. ':n', run) == 1 end)
end)

-- kvcm_hot: runs used at least so often, the hottest first; what is left of older uses is rounded. ARGV: uses, limit.
-- Returns runs.
register('kvcm_hot', function(keys, args)
  local base = keys[1]
  local weight, epoch = weight_now()
  if call('HGET', base, 'heat') ~= epoch then return {} end
  local least = string.format('%.17g', weight * (tonumber(args[1]) - 0.5))
  return call('ZREVRANGEBYSCORE', base .. ':h', '+inf', least, 'LIMIT', 0, args[2])
end, {'no-writes'})

-- kvcm_cooled: these runs were dealt with. ARGV: gen, run …
register('kvcm_cooled', function(keys, args)
  local refused = enter(keys[1], args[1])
  if refused then return refused end
  return call('ZREM', keys[1] .. ':h', unpack(args, 2))
end)

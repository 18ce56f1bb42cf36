-- Heat: how often runs on some storages were used lately, for groups whose policy brings blocks back (4.3 of the
-- design). {tag}:h run -> uses, each weighted by 2 ^ (its time / HALF_LIFE): so all older ones have decayed without
-- being touched. Of too many runs the coldest are forgotten. The base's field 'heat' is the epoch of the weights.
local HALF_LIFE = 600000          -- ms
local HEAT_EPOCH = 256            -- half-lives after which weights begin anew, and with them the counts
local HOT_RUNS = 65536

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

-- kvcm_heat: notes uses. ARGV: gen, numbers of the storages whose runs count (2 bytes each), packed (run 10, uses 4) …
-- Returns the number of runs that are noted now.
register('kvcm_heat', function(keys, args)
  local base, blob = keys[1], args[3]
  local refused = enter(base, args[1])
  if refused then return refused end
  local heat, wanted = base .. ':h', {}
  for i = 1, #args[2], 2 do wanted[struct.unpack('>I2', args[2], i)] = true end
  local weight, epoch = weight_now()
  if call('HGET', base, 'heat') ~= epoch then
    call('DEL', heat)
    call('HSET', base, 'heat', epoch)
  end
  for at = 1, #blob, 14 do
    local run, uses = struct.unpack('>c10I4', sub(blob, at, at + 13))
    if call('ZSCORE', heat, run) or is_on(base, run, wanted) then
      call('ZINCRBY', heat, string.format('%.17g', weight * uses), run)
    end
  end
  local count = call('ZCARD', heat)
  if count > HOT_RUNS then call('ZREMRANGEBYRANK', heat, 0, count - HOT_RUNS - 1) end
  return math.min(count, HOT_RUNS)
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

-- Of each stream: how many entries there are after one id, up to another and to a limit, and the id of the last of them.
-- Arguments: for each key the two ids and the limit.
local out = {}
for i, key in ipairs(KEYS) do
  local after = ARGV[3 * i - 2]
  local entries = redis.call('XRANGE', key, '(' .. after, ARGV[3 * i - 1], 'COUNT', ARGV[3 * i])
  out[i] = #entries .. ' ' .. (#entries > 0 and entries[#entries][1] or after)
end
return out

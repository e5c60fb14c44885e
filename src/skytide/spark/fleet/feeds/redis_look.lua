-- Of each stream: entries ever added, entries there are, and the last id.
local out = {}
for i, key in ipairs(KEYS) do
  local info = redis.pcall('XINFO', 'STREAM', key)
  local found = {['entries-added'] = '-1', ['length'] = '0', ['last-generated-id'] = '0-0'}
  if not info.err then
    for at = 1, #info, 2 do
      if found[info[at]] then found[info[at]] = info[at + 1] end
    end
  end
  out[i] = found['entries-added'] .. ' ' .. found['length'] .. ' ' .. found['last-generated-id']
end
return out

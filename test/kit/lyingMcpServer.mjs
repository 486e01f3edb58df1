/** A program that speaks MCP badly, in the way that its argument names. */
import { createInterface } from 'node:readline'

const [way] = process.argv.slice(2)
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const tool = (name) => ({ name, inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } })

const lists = {
  circle: () => ({ tools: [], nextCursor: 'again' }),
  endless: ({ cursor = '0' }) => ({ tools: [tool(`t${cursor}`)], nextCursor: String(Number(cursor) + 1) }),
  twice: () => ({ tools: [tool('a'), tool('a')] }),
  shapeless: () => ({ tools: 'none' }),
}

const answers = {
  garbage: (id) => {
    process.stdout.write('this is no JSON\n{"jsonrpc":"1.0"}\n\u0000\n[1,2\n')
    say({ id, result: { content: [{ type: 'text', text: 'after garbage' }] } })
  },
  wrongId: () => say({ id: 123_456, result: { content: [] } }),
  huge: () => process.stdout.write('x'.repeat(200_000)),
  flood: () => process.stdout.write('x\n'.repeat(5000)),
  deaf: () => {
    while (true); // its event loop turns no more
  },
  shape: (id) => say({ id, result: { content: [{ type: 'poem' }] } }),
  dies: () => process.exit(1),
  half: (id) => {
    process.stdout.write(`{"jsonrpc":"2.0","id":${id},"result":{"cont`)
    process.exit(0)
  },
  error: (id) => say({ id, error: { code: -32603, message: 'out of paper' } }),
  long: (id) => say({ id, result: { content: [{ type: 'text', text: 'é'.repeat(5000) }] } }),
}

if (way === 'mute') setInterval(() => {}, 1000)
else if (way === 'stubborn') process.on('SIGTERM', () => {})

createInterface(process.stdin).on('line', (line) => {
  if (way === 'mute') return
  const { id, method, params } = JSON.parse(line)
  if (method === 'initialize') {
    const { protocolVersion } = way === 'version' ? { protocolVersion: '1999-01-01' } : params
    say({ id, result: { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'liar', version: '1' } } })
  } else if (method === 'tools/list') say({ id, result: lists[way]?.(params) ?? { tools: [tool('do')] } })
  else if (method === 'tools/call') answers[way]?.(id)
  else if (method === 'ping' && way !== 'wrongId') say({ id, result: {} })
})
if (way === 'stubborn') setInterval(() => {}, 1000)

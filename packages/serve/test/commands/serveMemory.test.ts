/** Servers on one machine: what one has reserved for its KV cache is not free for the next. */
import { liveMachine } from '@tandem-rl/base/host'
import { expect, it } from 'vitest'
import { EMBEDDED_MODEL } from '../../../../src/live/embeddedModel.js'
import { startServe } from '../../../../test/kit/serveProcess.js'

const cacheBytesOf = async (url: string): Promise<number> => {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(/^vllm:kv_cache_max_bytes\{.*\} (\S+)$/m.exec(text)?.[1])
}

it.each(['serve', 'serve --tinker'])(
  '%s takes the smallest KV cache beside one that has reserved all memory, and its share after it',
  async (command) => {
    const more = command.split(' ').slice(1)
    const all = await startServe(EMBEDDED_MODEL, 'all', '--kv-cache-bytes', String(liveMachine.memoryBytes()))
    const beside = await startServe(EMBEDDED_MODEL, 'beside', ...more)
    const smallest = await cacheBytesOf(beside.url)
    expect(smallest).toBeGreaterThan(0)
    expect(beside.lines().join('\n')).toContain(`KV cache up to ${Math.ceil(smallest / 2 ** 20)} MiB`)
    await all.stop()
    const after = await startServe(EMBEDDED_MODEL, 'after', ...more)
    expect(await cacheBytesOf(after.url)).toBeGreaterThan(2 * smallest)
    await Promise.all([beside.stop(), after.stop()])
  },
)

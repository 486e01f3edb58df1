import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { totalmem } from 'node:os'
import { describe, expect, it } from 'vitest'
import { liveMemory } from '../src/memory.js'

const TOTAL = totalmem()

/** Another process that reserves bytes until it is killed. */
const reserving = async (bytes: number) => {
  const program = `import { liveMemory } from './packages/host/src/memory.ts'; liveMemory.reserve(${bytes}); console.log('reserved'); setInterval(() => {}, 1e6)`
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return child
}

describe('liveMemory', () => {
  it('returns at most the memory of the machine', () => {
    expect(liveMemory.free()).toBeGreaterThan(0)
    expect(liveMemory.free()).toBeLessThan(TOTAL)
  })

  it('leaves out what an engine of this process has reserved, until the reservation ends', () => {
    const end = liveMemory.reserve(2 * TOTAL)
    expect(liveMemory.free()).toBe(0)
    end()
    expect(liveMemory.free()).toBeGreaterThan(0)
  })

  it('leaves out what another process has reserved, until that process is killed', async () => {
    const child = await reserving(2 * TOTAL)
    expect(liveMemory.free()).toBe(0)
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(liveMemory.free()).toBeGreaterThan(0)
  })
})

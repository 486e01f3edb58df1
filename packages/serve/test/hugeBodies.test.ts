/**
 * Bodies of 32 MiB with wrong elements are refused by every route in less than a second of CPU time
 * and 300 MB, while the event loop of the server turns.
 */
import { orThrow } from '@tandem-rl/base'
import { liveProcesses } from '@tandem-rl/host'
import { describe, expect, it } from 'vitest'
import { compiled } from '../../../test/kit/compiled.js'
import type { HugeBodyResult } from '../../../test/kit/hugeBodiesMain.js'

const resultsOf = async (server: string): Promise<readonly HugeBodyResult[]> => {
  const lines: string[] = []
  const running = orThrow(
    await liveProcesses.start({
      command: process.execPath,
      args: ['--expose-gc', compiled('test/kit/hugeBodiesMain.ts'), server],
      onLine: (line) => lines.push(line),
    })(),
  )
  const { code } = await running.ended
  expect(code, lines.join('\n')).toBe(0)
  return lines.map((line) => JSON.parse(line) as HugeBodyResult) // its own lines
}

describe('32 MiB of wrong elements', () => {
  it.each([
    ['serve', 90],
    ['capture', 70],
    ['tinker', 35],
    ['rewards', 12],
    ['openEnv', 20],
    ['view', 12],
  ])('cost each route of %s less than a second and 300 MB', async (server, least) => {
    const results = await resultsOf(server)
    expect(results.length).toBeGreaterThanOrEqual(least)
    const wrong = results.filter(
      ({ status, cpuSeconds, peakMegabytes, answerBytes }) =>
        status >= 500 || cpuSeconds >= 1 || peakMegabytes >= 300 || answerBytes > 10_000,
    )
    expect(wrong).toEqual([])
    const slow = results.filter(({ cpuSeconds, turns }) => cpuSeconds > 0.3 && turns < 20)
    expect(slow).toEqual([])
  })
})

import { appendFileSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { encodeTrajectories } from '../../../src/data/codecs/trajectories.js'
import { appendTrajectories, cutTorn, openTrajectoryLog } from '../../../src/data/codecs/trajectoryLog.js'
import { data } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { useTemporaryFolder } from '../../kit/runs.js'

useEngine()

const path = useTemporaryFolder()

const batch = (n: number): TensorDict => TensorDict({ n: data(Array.from({ length: n }, (_, i) => `ż${i}`)) }, [n])

const written = async (name: string, ...sizes: readonly number[]): Promise<string> => {
  let log = await rightOf(openTrajectoryLog(path(name)))
  for (const size of sizes) log = await rightOf(appendTrajectories(log, batch(size)))
  expect(log).toEqual(await rightOf(openTrajectoryLog(path(name))))
  return path(name)
}

describe('a log of trajectories', () => {
  it('grows batch by batch, and is the joined text of its batches', async () => {
    const file = await written('whole.jsonl', 2, 0, 3)
    expect(readFileSync(file, 'utf8')).toBe([2, 0, 3].map((n) => encodeTrajectories(batch(n))).join(''))
    expect(await rightOf(openTrajectoryLog(file))).toMatchObject({ batches: 3, wholeBytes: readFileSync(file).length })
  })

  it('goes on where it was, also after blank lines and after a last line without line feed', async () => {
    const file = await written('on.jsonl', 1)
    appendFileSync(file, '\n\r\n')
    await rightOf(appendTrajectories(await rightOf(openTrajectoryLog(file)), batch(2)))
    truncateSync(file, readFileSync(file).length - 1)
    const log = await rightOf(appendTrajectories(await rightOf(openTrajectoryLog(file)), batch(1)))
    expect(log.batches).toBe(3)
    expect(await rightOf(openTrajectoryLog(file))).toEqual(log)
  })

  it('cut at any byte says what is torn, refuses more, and goes on after cutTorn with every whole batch', async () => {
    const [first, second] = [2, 3].map((n) => Buffer.from(encodeTrajectories(batch(n)))) as [Buffer, Buffer] // two
    const file = path('torn.jsonl')
    for (let cut = 1; cut < second.length - 1; cut++) {
      writeFileSync(file, Buffer.concat([first, second.subarray(0, cut)]))
      const log = await rightOf(openTrajectoryLog(file))
      expect(log).toMatchObject({ batches: 1, wholeBytes: first.length, torn: { kind: 'torn' } })
      expect(await leftOf(appendTrajectories(log, batch(1)))).toEqual(log.torn)
    }
    const log = await rightOf(cutTorn(await rightOf(openTrajectoryLog(file))))
    expect(readFileSync(file)).toEqual(first)
    expect(await rightOf(cutTorn(log))).toBe(log)
    expect(await rightOf(appendTrajectories(log, batch(3)))).toMatchObject({ batches: 2 })
    expect(readFileSync(file)).toEqual(Buffer.concat([first, second]))
  })

  it('damaged in the middle is a failure that names the line', async () => {
    const file = path('damaged.jsonl')
    writeFileSync(file, `${encodeTrajectories(batch(1))}nonsense\n${encodeTrajectories(batch(1))}`)
    expect(await leftOf(openTrajectoryLog(file))).toMatchObject({ _tag: 'TrajectoryFailure', kind: 'damaged', line: 3 })
    writeFileSync(file, '{"question":"Why?"}\n')
    expect((await leftOf(openTrajectoryLog(file))).reason).toMatch(/line 1: expected a header/)
  })

  it('that somebody else has written to takes no batch', async () => {
    const file = await written('shared.jsonl', 1)
    const log = await rightOf(openTrajectoryLog(file))
    await rightOf(appendTrajectories(log, batch(1)))
    expect((await leftOf(appendTrajectories(log, batch(1)))).reason).toMatch(/open it anew/)
    expect((await rightOf(openTrajectoryLog(file))).batches).toBe(2)
  })

  it('in a place that cannot be written to is a failure', async () => {
    const log = await rightOf(openTrajectoryLog(path('no-folder/a.jsonl')))
    expect(await leftOf(appendTrajectories(log, batch(1)))).toMatchObject({ _tag: 'FileFailure', code: 'ENOENT' })
    scope(() => {
      expect(() => appendTrajectories(log, TensorDict({ z: tf.complex([1], [1]) }, [1]))).toThrow(/complex64/)
      return []
    })
  })
})

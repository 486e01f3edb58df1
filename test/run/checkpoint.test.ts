/** Checkpoints on a real disk: atomic writes, retention, and verified reads. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { describe as sentence } from '@tandem-rl/base'
import { liveDigest } from '@tandem-rl/base/host'
import { liveFiles as files } from '@tandem-rl/host'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type CheckpointState,
  checkpointDigests,
  checkpointFiles,
  checkpointsIn,
  readCheckpoint,
  writeCheckpoint,
} from '../../src/run/store/checkpoint.js'
import { leftOf, rightOf } from '../kit/results.js'
import { useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

let made = 0
const fresh = (): string => path(`checkpoints${made++}`)

const LOGS = { metrics: { bytes: 100, digest: 'a' }, trajectories: { bytes: 200, digest: 'b' } }

const state = (changes: Partial<CheckpointState> = {}): CheckpointState => ({
  ...{ step: 3, klCoefficient: 0.1, position: { batch: 3, remembered: { loading: { next: 6 } } } },
  ...{ secondsTotal: 1.5, checkpointSeconds: 0.25, ...LOGS, ...changes },
})

/** The files of a learner. */
const FILES = { 'model.safetensors': new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]), 'learner.json': '{"version":3}' }

const contents = (changes: Partial<CheckpointState> = {}) =>
  checkpointFiles({ files: () => FILES }, state(changes), liveDigest)

const save = (folder: string, step: number, also: readonly number[] = []): Promise<string> =>
  rightOf(writeCheckpoint(files, contents({ step }), { folder, step, keep: 2, also }))

const newest = async (folder: string): Promise<string | undefined> => (await rightOf(checkpointsIn(files, folder)))[0]

describe('a checkpoint', () => {
  it('is read as it was written, with a digest of each of its files', async () => {
    const folder = await save(fresh(), 3)
    expect(await rightOf(readCheckpoint(files, folder, liveDigest))).toEqual(state())
    expect(Object.keys(await rightOf(checkpointDigests(files, folder, liveDigest))).sort()).toEqual(
      Object.keys(FILES).sort(),
    )
  })

  it('is refused by the name of any file in which any byte is another one', async () => {
    const law = fc.asyncProperty(
      fc.constantFrom(...Object.keys(FILES)),
      fc.nat(7),
      fc.integer({ min: 1, max: 255 }),
      async (name, at, change) => {
        const folder = await save(fresh(), 3)
        const bytes = readFileSync(`${folder}/${name}`)
        bytes[at] = bytes[at]! ^ change
        writeFileSync(`${folder}/${name}`, bytes)
        const told = sentence(await leftOf(readCheckpoint(files, folder, liveDigest)))
        expect(told).toContain(folder)
        expect(told).toContain(name)
      },
    )
    await fc.assert(law, { numRuns: 30 })
  })

  it.each(['state.json', ...Object.keys(FILES)])('names %s if it is missing, cut off or empty', async (file) => {
    const damages: readonly ((path: string) => void)[] = [
      (path) => rmSync(path),
      (path) => writeFileSync(path, readFileSync(path).subarray(0, 5)),
      (path) => writeFileSync(path, ''),
    ]
    for (const damage of damages) {
      const folder = await save(fresh(), 3)
      damage(`${folder}/${file}`)
      const told = sentence(await leftOf(readCheckpoint(files, folder, liveDigest)))
      expect(told).toContain(folder)
      expect(told).toContain(file)
    }
  })

  it.each([{ format: 1 }, { digest: 1 }, { step: -1 }, { position: undefined }, { metrics: null }, { extra: 1 }])(
    'names state.json and the field for %j',
    async (changes) => {
      const folder = await save(fresh(), 3)
      const whole: object = JSON.parse(readFileSync(`${folder}/state.json`, 'utf8'))
      writeFileSync(`${folder}/state.json`, JSON.stringify({ ...whole, ...changes }))
      const told = sentence(await leftOf(readCheckpoint(files, folder, liveDigest)))
      expect(told).toContain('state.json')
      expect(told).toContain(Object.keys(changes)[0])
    },
  )
})

describe('state.json', () => {
  /** Any data of JSON with keys that could change their order. */
  const position = fc
    .jsonValue({ maxDepth: 3 })
    .map((json) => JSON.parse(JSON.stringify(json)) as CheckpointState['position'])

  it('is read with any position', async () => {
    const law = fc.asyncProperty(position, async (each) => {
      const folder = fresh()
      const saved = await rightOf(
        writeCheckpoint(files, contents({ step: 1, position: each }), { folder, step: 1, keep: 1 }),
      )
      expect((await rightOf(readCheckpoint(files, saved, liveDigest))).position).toEqual(each)
    })
    await fc.assert(law, { numRuns: 30 })
  })

  it('is refused if a value in it was changed, or a field of its position removed', async () => {
    const saved = await save(fresh(), 3)
    const text = readFileSync(`${saved}/state.json`, 'utf8')
    const changes: readonly (readonly [string, string])[] = [
      ['"next": 6', '"next": 7'],
      ['"batch": 3,', ''],
      ['"step": 3', '"step": 2'],
      ['"klCoefficient": 0.1', '"klCoefficient": 0.2'],
      ['"bytes": 100', '"bytes": 99'],
      ['"digest": "a"', '"digest": "b"'],
      ['"secondsTotal": 1.5', '"secondsTotal": 2'],
    ]
    for (const [before, after] of changes) {
      expect(text).toContain(before)
      writeFileSync(`${saved}/state.json`, text.replace(before, after))
      expect(sentence(await leftOf(readCheckpoint(files, saved, liveDigest))), before).toMatch(
        /state\.json.*its bytes are not those that were saved/,
      )
    }
    writeFileSync(`${saved}/state.json`, text.replaceAll('\n', ''))
    expect(await rightOf(readCheckpoint(files, saved, liveDigest))).toEqual(state())
  })

  it('of Tandem 0.1 is refused with the remedy', async () => {
    const saved = await save(fresh(), 3)
    writeFileSync(`${saved}/state.json`, JSON.stringify({ format: 2, ...state(), digests: {} }))
    expect(sentence(await leftOf(readCheckpoint(files, saved, liveDigest)))).toContain('written by Tandem 0.1: finish')
  })
})

describe('writeCheckpoint', () => {
  it('keeps the newest two, and those that are asked for', async () => {
    const folder = fresh()
    for (const step of [1, 2, 5, 10]) await save(folder, step, [1])
    expect(readdirSync(folder)).toEqual(['step-000001', 'step-000005', 'step-000010'])
  })

  it('clears unfinished folders of runs that were killed, and leaves other files alone', async () => {
    const folder = fresh()
    mkdirSync(`${folder}/step-000001.tmp-4242`, { recursive: true })
    mkdirSync(`${folder}/notes`)
    await save(folder, 2)
    expect(readdirSync(folder)).toEqual(['notes', 'step-000002'])
  })

  it('replaces a checkpoint of the same step: a resumed run gets there again', async () => {
    const folder = fresh()
    await save(folder, 2)
    const changed = contents({ step: 2, secondsTotal: 99 })
    const saved = await rightOf(writeCheckpoint(files, changed, { folder, step: 2, keep: 2 }))
    expect((await rightOf(readCheckpoint(files, saved, liveDigest))).secondsTotal).toBe(99)
  })
})

describe('checkpointsIn', () => {
  it('is empty if there is none', async () => {
    expect(await newest(fresh())).toBeUndefined()
  })

  it('never has an unfinished folder', async () => {
    const folder = fresh()
    const saved = await save(folder, 2)
    mkdirSync(`${folder}/step-000003.tmp-4242`)
    expect(await newest(folder)).toBe(saved)
    rmSync(saved, { recursive: true })
    expect(await newest(folder)).toBeUndefined()
  })

  it('begins with the one with the most steps, however many they are', async () => {
    const steps = fc.uniqueArray(fc.oneof(fc.nat(20), fc.nat(20_000_000)), { minLength: 1, maxLength: 5 })
    const law = fc.asyncProperty(steps, async (list) => {
      const folder = fresh()
      for (const step of [...list].sort((a, b) => a - b)) await save(folder, step)
      expect(Number((await newest(folder))!.split('step-')[1])).toBe(Math.max(...list))
    })
    await fc.assert(law, { numRuns: 30 })
  })
})

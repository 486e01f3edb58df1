/** Checkpoints on a real disk: they come back bit for bit, or say which file is broken. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import * as tf from '@tensorflow/tfjs'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { type AnyStateOptimizer, restoredState } from '../../../src/collectors/learners/optimizerState.js'
import {
  type CheckpointState,
  checkpointFiles,
  latestCheckpoint,
  loadCheckpoint,
  saveCheckpoint,
} from '../../../src/collectors/run/checkpoint.js'
import { optimizerOf } from '../../../src/collectors/run/optimizerChoice.js'
import type { TrainerState } from '../../../src/collectors/steps/lossStep.js'
import { describe as sentence } from '../../../src/core/failure.js'
import { child, keyFromSeed, normals } from '../../../src/core/key.js'
import { encodeSafetensors, type HostArray } from '../../../src/data/codecs/safetensors.js'
import { scope } from '../../../src/engine/scope.js'
import { liveFiles as files } from '../../../src/live/files.js'
import { makeParams, type Pretrained } from '../../../src/modules/pretrained.js'
import type { AdamWState } from '../../../src/objectives/updates/adamW.js'
import { useEngine } from '../../kit/engine.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { answeringModel, useTemporaryFolder } from '../../kit/runs.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

let model: Pretrained
let learner: AnyStateOptimizer
beforeAll(async () => {
  model = await answeringModel()
  learner = optimizerOf({ optimizer: 'adamw' }, model.config)
})

let made = 0
const fresh = (): string => path(`checkpoints${made++}`)

const state = (changes: Partial<CheckpointState> = {}): CheckpointState => ({
  ...{ format: 1, step: 3, policyVersion: 3, position: { batch: 3, remembered: { loading: { next: 6 } } } },
  ...{ secondsTotal: 1.5, checkpointSeconds: 0.25, metricsBytes: 100, trajectoriesBytes: 200, ...changes },
})

/** Numbers of the model's shapes, of every size. */
const moments = (label: string): ReadonlyMap<string, HostArray> => {
  const numbers = (name: string, count: number): Float32Array =>
    normals(child(child(keyFromSeed(5), label), name), count)
  return new Map(
    [...model.arrays].map(([name, { shape, data }]) => [
      name,
      { shape, data: numbers(name, data.length).map((x, i) => x * 10 ** ((i % 60) - 30)) },
    ]),
  )
}

const contents = (changes: Partial<CheckpointState> = {}): ReturnType<typeof checkpointFiles> => {
  let written: ReturnType<typeof checkpointFiles> = {}
  scope(() => {
    const optimizer: AdamWState = {
      ...{ step: tf.scalar(3), mean: makeParams(moments('mean')), square: makeParams(moments('square')) },
    }
    const trainer: TrainerState<object> = { params: makeParams(moments('params')), optimizer }
    written = checkpointFiles(model, trainer, state(changes))
  })
  return written
}

const save = (folder: string, step: number): Promise<string> =>
  rightOf(saveCheckpoint(files, contents({ step }), { folder, step, keep: 2 }))

describe('a checkpoint', () => {
  it('comes back bit for bit: weights, optimizer, and where the run stood', async () => {
    const checkpoint = await rightOf(loadCheckpoint(files, await save(fresh(), 3), learner))
    expect(checkpoint.state).toEqual(state())
    expect(checkpoint.model.arrays).toEqual(moments('params'))
    const { source } = model.config // the file says now how the numbers are stored
    expect({ ...checkpoint.model.config, source }).toEqual(model.config)
    expect(checkpoint.model.text.files).toEqual(model.text.files)
    scope(() => {
      const restored = restoredState(learner, makeParams(model.arrays), checkpoint.optimizer)
      const { step, mean, square } = restored as AdamWState // of AdamW
      const numbers = (tensors: Readonly<Record<string, tf.Tensor>>) =>
        new Map(Object.entries(tensors).map(([name, t]) => [name, { shape: t.shape, data: t.dataSync() }]))
      expect(Array.from(step.dataSync())).toEqual([3])
      expect(numbers(mean)).toEqual(moments('mean'))
      expect(numbers(square)).toEqual(moments('square'))
    })
  })

  it('is written from what was read to equal bytes', async () => {
    const folder = await save(fresh(), 3)
    const read = await rightOf(loadCheckpoint(files, folder, learner))
    scope(() => {
      const params = makeParams(read.model.arrays)
      const trainer = { params, optimizer: restoredState(learner, params, read.optimizer) }
      const again = checkpointFiles(read.model, trainer, read.state)
      for (const [name, bytes] of Object.entries(again))
        expect(readFileSync(`${folder}/${name}`).equals(Buffer.from(bytes)), name).toBe(true)
    })
  })
})

/** Every file of a checkpoint. */
const FILES = [
  ...['state.json', 'optimizer.safetensors', 'model.safetensors', 'config.json', 'tokenizer.json'],
  ...['tokenizer_config.json', 'chat_template.jinja'],
]

const damaged = async (damage: (path: string) => void, file: string): Promise<string> => {
  const folder = await save(fresh(), 3)
  damage(`${folder}/${file}`)
  const told = sentence(await leftOf(loadCheckpoint(files, folder, learner)))
  expect(told).toContain(folder)
  return told
}

const zeros = (length: number): Uint8Array => new Uint8Array(length)

describe('a damaged checkpoint', () => {
  it('has all of these files', () => {
    expect(Object.keys(contents()).sort()).toEqual([...FILES].sort())
  })

  it.each(FILES)('names %s if it is missing', async (file) => {
    expect(await damaged((path) => rmSync(path), file)).toContain(file)
  })

  it.each(FILES)('names %s if it is cut off', async (file) => {
    const cut = (path: string): void => {
      const whole = readFileSync(path)
      writeFileSync(path, whole.subarray(0, Math.floor(whole.length * 0.6)))
    }
    expect(await damaged(cut, file)).toContain(file)
  })

  it.each(FILES.filter((file) => file !== 'chat_template.jinja'))('names %s if it is all zeros', async (file) => {
    const clear = (path: string): void => writeFileSync(path, zeros(readFileSync(path).length))
    expect(await damaged(clear, file)).toContain(file)
  })

  it('names the tensor that a file of weights or an optimizer lacks', async () => {
    const few = encodeSafetensors(new Map([['step', { shape: [], data: Float32Array.of(3) }]]))
    const replace = (path: string): void => writeFileSync(path, few)
    const [first] = [...model.arrays.keys()]
    expect(await damaged(replace, 'model.safetensors')).toContain(`'${first}' is missing`)
    expect(await damaged(replace, 'optimizer.safetensors')).toContain(`'mean.${first}' is missing`)
  })

  it('names optimizer.safetensors if a moment is not as large as its parameter', async () => {
    const small = { shape: [1], data: Float32Array.of(0) }
    const arrays = ['mean.', 'square.'].flatMap((prefix) => [...model.arrays.keys()].map((name) => prefix + name))
    const bytes = encodeSafetensors(new Map(['step', ...arrays].map((name) => [name, small])))
    expect(await damaged((path) => writeFileSync(path, bytes), 'optimizer.safetensors')).toContain(
      'optimizer.safetensors',
    )
  })

  it.each([{ format: 2 }, { step: -1 }, { position: {} }, { metricsBytes: null }, { extra: 1 }])(
    'names state.json and the field for %j',
    async (changes) => {
      const replace = (path: string): void => writeFileSync(path, JSON.stringify({ ...state(), ...changes }))
      const told = await damaged(replace, 'state.json')
      expect(told).toContain('state.json')
      expect(told).toContain(Object.keys(changes)[0])
    },
  )
})

describe('saveCheckpoint', () => {
  it('keeps the newest two', async () => {
    const folder = fresh()
    for (const step of [1, 2, 5, 10]) await save(folder, step)
    expect(readdirSync(folder)).toEqual(['step-000005', 'step-000010'])
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
    const saved = await rightOf(saveCheckpoint(files, changed, { folder, step: 2, keep: 2 }))
    expect((await rightOf(loadCheckpoint(files, saved, learner))).state.secondsTotal).toBe(99)
  })
})

describe('latestCheckpoint', () => {
  it('is undefined where there is none', async () => {
    expect(await rightOf(latestCheckpoint(files, fresh()))).toBeUndefined()
  })

  it('is never an unfinished folder', async () => {
    const folder = fresh()
    const saved = await save(folder, 2)
    mkdirSync(`${folder}/step-000003.tmp-4242`)
    expect(await rightOf(latestCheckpoint(files, folder))).toBe(saved)
    rmSync(saved, { recursive: true })
    expect(await rightOf(latestCheckpoint(files, folder))).toBeUndefined()
  })

  it('is the one with the most steps, however many they are', async () => {
    const steps = fc.uniqueArray(fc.oneof(fc.nat(20), fc.nat(20_000_000)), { minLength: 1, maxLength: 5 })
    const small = { 'state.json': '{}' }
    const law = fc.asyncProperty(steps, async (list) => {
      const folder = fresh()
      for (const step of [...list].sort((a, b) => a - b))
        await rightOf(saveCheckpoint(files, small, { folder, step, keep: 2 }))
      expect(Number((await rightOf(latestCheckpoint(files, folder)))!.split('step-')[1])).toBe(Math.max(...list))
    })
    await fc.assert(law, { numRuns: 30 })
  })
})

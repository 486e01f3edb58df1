/** Value heads: what they read, and their file. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { child, keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { encodeSafetensors } from '../../src/data/codecs/safetensors.js'
import { makeParams } from '../../src/modules/pretrained/pretrained.js'
import { initialParams, type Params } from '../../src/modules/transformer/params.js'
import {
  initialValueHead,
  loadValueHead,
  makeValuer,
  stateValues,
  valueHeadFiles,
  withoutValueHead,
} from '../../src/modules/valueHead.js'
import { expectClose } from '../kit/close.js'
import { useEngine, valuesOf } from '../kit/engine.js'
import { tinyConfig } from '../kit/models.js'
import { leftOf, rightOf } from '../kit/results.js'

useEngine({ threads: 1 })

const config = tinyConfig({ layers: 1, hiddenSize: 8, intermediateSize: 8, heads: 2, keyValueHeads: 1, headSize: 4 })
const key = keyFromSeed(1)

const withHead = (scale: number): Owned<Params> =>
  own(scope(() => ({ ...initialParams(config, key, 0.5), ...initialValueHead(config, child(key, 'head'), scale) })))

const rows = { prompts: [[1, 2, 3], [1, 2, 3], [4]], completions: [[5, 6], [7, 8, 9], [5]] }

describe('values', () => {
  it('are one for each token of the completions, and 0 before anything is learned', () => {
    using params = withHead(0)
    const valuer = makeValuer(config)
    expect(valuer.values(params.value, rows).map((row) => Array.from(row))).toEqual([[0, 0], [0, 0, 0], [0]])
    valuer.release()
  })

  it('depend on what came before a token, and neither on it nor on what comes after', () => {
    using params = withHead(1)
    const valuer = makeValuer(config)
    const values = valuer.values(params.value, rows).map((row) => Array.from(row))
    const alone = rows.prompts.map((prompt, i) =>
      Array.from(valuer.values(params.value, { prompts: [prompt], completions: [rows.completions[i]!] })[0]!),
    )
    valuer.release()
    for (const [i, row] of values.entries()) expectClose(row, alone[i]!, { absolute: 1e-5 })
    expectClose([values[0]![0]!], [values[1]![0]!], { absolute: 1e-5 }) // the same prompt, another token
    expect(Math.abs(values[0]![1]! - values[1]![1]!)).toBeGreaterThan(1e-3)
  })

  it('are W s + b', () => {
    scope(() => {
      const params = { 'value_head.weight': tf.tensor2d([[1, -2]]), 'value_head.bias': tf.tensor1d([0.5]) }
      expect(
        valuesOf(
          stateValues(
            params,
            tf.tensor2d([
              [3, 1],
              [0, 0],
            ]),
          ),
        ),
      ).toEqual([1.5, 0.5])
    })
    expect(() => stateValues({}, rows as never)).toThrow("there is no 'value_head.weight' among the parameters") // it never gets to the states
  })
})

describe('the file of a value head', () => {
  it('is read back to equal numbers, and is no part of the policy', async () => {
    using params = withHead(1)
    const folder = await mkdtemp(join(tmpdir(), 'head-'))
    try {
      await rightOf(liveFiles.writeFolder(join(folder, 'model'), valueHeadFiles(params.value)))
      const arrays = orThrow(await loadValueHead(join(folder, 'model'), config)())
      using read = own(scope(() => makeParams(arrays)))
      for (const [name, tensor] of Object.entries(read.value)) {
        expect(valuesOf(tensor)).toEqual(valuesOf(params.value[name]!))
        expect(Object.keys(withoutValueHead(params.value))).not.toContain(name)
      }
      expect(Object.keys(read.value)).toEqual(['value_head.weight', 'value_head.bias'])
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  it('is refused with all that is wrong', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'head-'))
    try {
      expect(await leftOf(loadValueHead(folder, config))).toMatchObject({
        _tag: 'ModelFailure',
        file: 'value_head.safetensors',
      })
      const arrays = new Map([
        ['value_head.weight', { shape: [2, 8], data: new Float32Array(16) }],
        ['other', { shape: [1], data: new Float32Array(1) }],
      ])
      await writeFile(join(folder, 'value_head.safetensors'), encodeSafetensors(arrays))
      expect(await leftOf(loadValueHead(folder, config))).toMatchObject({
        reason: expect.stringMatching(/weight' is \[2,8\].*bias' is missing.*'other' is not a parameter/s),
      })
    } finally {
      await rm(folder, { recursive: true })
    }
    expect(() => valueHeadFiles({})).toThrow("there is no 'value_head.weight' among the parameters")
  })
})

import { liveTensors, ownedCount } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { useOnnxRuntime } from '../kit/engine.js'
import { smallSettings, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'
import { runEvents } from '../kit/trainingRuns.js'

useOnnxRuntime()
const at = useTemporaryFolder()

describe('500 steps of a run', () => {
  it('keep the same number of live tensors, bytes and owned values after every step', async () => {
    const model = await writeAnsweringModel(at('model'))
    const settings = smallSettings(model, { steps: 500, evalEvery: 250, checkpointEvery: 100 })
    const seen: { readonly count: number; readonly bytes: number; readonly owned: number }[] = []
    for await (const event of runEvents(at('run'), settings)) {
      if (event.type === 'step') seen.push({ ...liveTensors(), owned: ownedCount() })
    }
    expect(seen).toHaveLength(500)
    expect(new Set(seen.map((x) => JSON.stringify(x))).size, JSON.stringify([seen[0], seen[499]])).toBe(1)
  })
})

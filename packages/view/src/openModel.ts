/** A run that is open for its checkpoints: its recipe's parts, and an engine with their weights. */
import { type Files, type Json, orThrow } from '@tandem-rl/base'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { AnyRun, Pretrained } from 'tandem-rl'
import { type LocalLLMEngine, modelEngine } from 'tandem-rl/generation'
import { type RunReader, readRun } from 'tandem-rl/run'

/** New values of settings by dotted path. */
export type Changes = Readonly<Record<string, Json>>

/** Builds the run of a folder with its recipe, with some settings changed. */
type OpenRecipeRun = (folder: string, changes: Changes) => Promise<AnyRun>

/** The source of open runs. */
export interface ModelSource {
  readonly files: Files
  readonly openRun: OpenRecipeRun
}

/** An open run. Nothing of it writes to the run folder. */
export interface OpenModel extends Pick<Pretrained, 'config' | 'text'> {
  readonly reader: RunReader
  /** Returns the run. Its learner has the weights of the last `learnerAt`. */
  readonly run: () => AnyRun
  /**
   * Loads a checkpoint into the learner and the policies; 0 is the initial model. Throws
   * FailureError if the run has no such checkpoint.
   */
  readonly learnerAt: (step: number) => Promise<void>
  /** Returns an engine with the weights of a checkpoint, which are valid until the next call. */
  readonly engineAt: (step: number) => Promise<LocalLLMEngine>
  /** Marks the learner's weights as not those of a checkpoint. */
  readonly spoil: () => void
  readonly close: () => Promise<void>
}

/** The run with the weights before any checkpoint. */
const start = async ({ openRun }: ModelSource, folder: string, changes: Changes) => {
  const run = await openRun(folder, changes)
  return { run, initial: own(run.learner.weights()) }
}

const modelOf = ({ record }: AnyRun): Pick<Pretrained, 'config' | 'text'> => {
  if (record.model === undefined)
    throw new RangeError('the recipe does not name its model: give record.model to defineRun')
  return record.model
}

/** Requests that an engine of the viewer decodes at the same time. */
const CONCURRENT = 32

/**
 * Opens the run of a folder.
 *
 * Errors   throws RangeError if the folder holds no run or the recipe does not name its model, and
 *          what the recipe throws.
 */
export const openModel = async (source: ModelSource, folder: string, changes: Changes = {}): Promise<OpenModel> => {
  let opened = await start(source, folder, changes)
  let engine: LocalLLMEngine | null = null
  let loads = 0
  /** The checkpoint in the learner, and the one in the policies; -1 for other weights. */
  let at = { learner: 0, policies: 0 }
  let hasBegun = false
  const end = async (): Promise<void> => {
    opened.initial.release()
    await opened.run.close()
  }
  const reader = await readRun(folder, source.files)
  if (reader === null) {
    await end()
    throw new RangeError(`${folder} is not a run folder`)
  }
  const again = async (): Promise<void> => {
    await end()
    opened = await start(source, folder, changes)
    at = { learner: 0, policies: 0 }
    hasBegun = false
  }
  const restore = async (step: number): Promise<void> => {
    if (step === at.learner) return
    if (step === 0) return again()
    orThrow(await opened.run.learner.restore(reader.checkpoint(step), source.files)())
    at = { ...at, learner: step }
  }
  try {
    const { config, text } = modelOf(opened.run)
    return {
      reader,
      config,
      text,
      run: () => opened.run,
      learnerAt: async (step) => {
        if (step < at.policies) await again() // policies only take newer weights
        await restore(step)
        const { run } = opened
        if (!hasBegun) await run.begin?.()
        hasBegun = true
        if (step === at.policies) return
        orThrow(await run.push(step)())
        if (run.refresh !== undefined) orThrow(await run.refresh(step)())
        at = { learner: step, policies: step }
      },
      engineAt: async (step) => {
        if (step > 0) await restore(step)
        const params = step === 0 ? opened.initial.value : opened.run.learner.weights()
        loads++
        if (engine === null) {
          const limits = { maxConcurrent: CONCURRENT }
          engine = modelEngine({ config, params, version: loads, tokenizer: text.tokenizer, limits })
        } else orThrow(engine.loadParams(params, { version: loads, running: 'recompute' }))
        return engine
      },
      spoil: () => {
        at = { ...at, learner: -1 }
      },
      close: async () => {
        await engine?.close()
        await end()
      },
    }
  } catch (error) {
    await end()
    throw error
  }
}

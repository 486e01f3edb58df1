/** The requests about checkpoints: how each is read and answered. */
import type { z } from 'zod'
import { chatLines } from './modelChat.js'
import type { ModelTask } from './modelDesk.js'
import { evaluateLines } from './modelEvaluate.js'
import { forkLines } from './modelFork.js'
import { influenceLines } from './modelInfluence.js'
import { probabilityLines } from './modelProbability.js'
import {
  chatSchema,
  evaluateSchema,
  forkSchema,
  influenceSchema,
  probabilitySchema,
  replaySchema,
} from './modelProtocol.js'
import { replayLines } from './modelReplay.js'
import type { ModelRequest } from './protocol.js'
import type { RunLog } from './runLog.js'

/** Schemas of the bodies, which give the task to run. */
export const MODEL_TASKS: Readonly<Record<ModelRequest, z.ZodType<ModelTask>>> = {
  probability: probabilitySchema.transform(probabilityLines),
  influence: influenceSchema.transform(influenceLines),
  chat: chatSchema.transform(chatLines),
  fork: forkSchema.transform(forkLines),
  evaluate: evaluateSchema.transform(evaluateLines),
  replay: replaySchema.transform(replayLines),
}

/** Returns the requests that a run with checkpoints can answer, as far as its files tell. */
export const modelFeatures = (log: RunLog, rollouts: number): readonly ModelRequest[] => {
  const { config, checkpoints, evaluations } = log
  if (config.recipe === null || checkpoints.length === 0) return []
  return [
    ...(['probability', 'chat', 'replay'] as const),
    ...(rollouts > 0 ? (['influence', 'fork'] as const) : []),
    ...(evaluations.length > 0 ? (['evaluate'] as const) : []),
  ]
}

/** The requests about checkpoints: how each is read and answered. */
import type { z } from 'zod'
import { chatLines } from './modelChat.js'
import type { ModelTask } from './modelDesk.js'
import { evaluateLines } from './modelEvaluate.js'
import { forkLines } from './modelFork.js'
import { influenceLines } from './modelInfluence.js'
import { probabilityLines } from './modelProbability.js'
import {
  checkpointChatSchema,
  evaluateSchema,
  forkSchema,
  influenceSchema,
  probabilitySchema,
  replaySchema,
} from './modelProtocol.js'
import { replayLines } from './modelReplay.js'
import type { ModelRequest } from './protocol.js'

/** Schemas of the bodies, which give the task to run. */
export const MODEL_TASKS: Readonly<Record<ModelRequest, z.ZodType<ModelTask>>> = {
  probability: probabilitySchema.transform(probabilityLines),
  influence: influenceSchema.transform(influenceLines),
  chat: checkpointChatSchema.transform(chatLines),
  fork: forkSchema.transform(forkLines),
  evaluate: evaluateSchema.transform(evaluateLines),
  replay: replaySchema.transform(replayLines),
}

/**
 * The suite of engines, run on one at the other end of a channel. The start and end of threads are
 * in onDevice.test.ts.
 */
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { LLMOnDevice } from '../../../src/modules/generation/onDevice.js'
import { engineSuite } from '../../kit/engineSuite.js'
import { rightOf } from '../../kit/results.js'
import { sameThread } from '../../kit/sameThread.js'
import { toyEngine, toySuiteModel } from '../../kit/toyEngine.js'

const module = pathToFileURL(resolve('test/kit/toyEngine.ts')).href

engineSuite('the engine behind the messages of a thread', async () => ({
  engine: await rightOf(
    LLMOnDevice({ module, exportName: toyEngine.name, options: null }, { threads: sameThread, window: 4 }),
  ),
  model: toySuiteModel,
}))

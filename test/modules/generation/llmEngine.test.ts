import { engineSuite } from '../../kit/engineSuite.js'
import { rightOf } from '../../kit/results.js'
import { toyEngine, toySuiteModel } from '../../kit/toyEngine.js'

engineSuite('the engine of this process', async () => ({ engine: await rightOf(toyEngine()), model: toySuiteModel }))

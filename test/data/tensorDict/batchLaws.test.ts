/** The laws of batch operations, on every kind of TensorDict that can be drawn. */
import { describe, it } from 'vitest'
import { anyTensorDict } from '../../../src/testing/arbitraries.js'
import { checkLaws } from '../../../src/testing/law.js'
import { indexingLaws } from '../../../src/testing/tensorDictLaws/indexing.js'
import { joiningLaws } from '../../../src/testing/tensorDictLaws/joining.js'
import { paddingLaws } from '../../../src/testing/tensorDictLaws/padding.js'
import { programLaws } from '../../../src/testing/tensorDictLaws/programs.js'
import { reductionLaws } from '../../../src/testing/tensorDictLaws/reductions.js'
import { shapeLaws } from '../../../src/testing/tensorDictLaws/shape.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const samples = anyTensorDict()

describe('indexing', () => checkLaws(it, indexingLaws(samples)))
describe('joining', () => checkLaws(it, joiningLaws(samples)))
describe('shape', () => checkLaws(it, shapeLaws(samples)))
describe('padding', () => checkLaws(it, paddingLaws(samples)))
describe('reductions', () => checkLaws(it, reductionLaws(samples)))
describe('all operations', () => checkLaws(it, programLaws(samples)))

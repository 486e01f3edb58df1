import { describe, expect, it } from 'vitest'
import { INSTRUCTION_ARGUMENTS, type InstructionId } from '../../../../src/data/datasets/ifEvalInstructions.js'
import { ifEvalScore } from '../../../../src/envs/rewards/ifEval/ifEvalScore.js'
import { KIND_SAMPLES, type KindSample, loadedDetector } from '../../../kit/ifEval.js'

const context = { detectLanguage: await loadedDetector() }
// The cast is right: the keys are the ids.
const samples = Object.entries(KIND_SAMPLES) as readonly (readonly [InstructionId, KindSample])[]

it('there are 25 kinds of instruction, and a sample of each', () => {
  expect(Object.keys(INSTRUCTION_ARGUMENTS)).toHaveLength(25)
  expect(Object.keys(KIND_SAMPLES).sort()).toEqual(Object.keys(INSTRUCTION_ARGUMENTS).sort())
})

describe.each(samples)('%s', (id, { kwargs, keeps, breaks }) => {
  const score = (reply: string) => ifEvalScore(reply, [{ id, kwargs }], context)

  it('is kept by replies that do what it says, strictly and loosely', () => {
    for (const reply of keeps) {
      expect(score(reply), reply).toEqual({
        promptLevelStrict: true,
        promptLevelLoose: true,
        instLevelStrict: [true],
        instLevelLoose: [true],
      })
    }
  })

  it('is not kept by replies that do otherwise, nor by a blank one', () => {
    for (const reply of [...breaks, '', ' \n\t']) expect(score(reply).promptLevelStrict, reply).toBe(false)
  })

  it('is loosely kept by a reply that keeps it between two lines of talk', () => {
    const [reply] = keeps
    expect(score(`Sure, here it is:\n${reply}\nI hope, this helps.`).promptLevelLoose).toBe(true)
  })
})

describe('the loose reading', () => {
  const [id, kwargs] = ['startend:quotation', {}] as const
  const loose = (reply: string) => ifEvalScore(reply, [{ id, kwargs }], context).promptLevelLoose

  it.each(['"a"', 'Sure:\n"a"', '"a"\nBye.', 'Sure:\n"a"\nBye.', '*"a"*', 'Sure:\n**"a"**\nBye.'])(
    'forgives %j',
    (reply) => {
      expect(loose(reply)).toBe(true)
    },
  )

  it.each(['One.\nTwo.\n"a"', '"a"\nOne.\nTwo.', '_"a"_', '*\n*'])('does not forgive %j', (reply) => {
    expect(loose(reply)).toBe(false)
  })
})

it('the verdict on a prompt is that on all its instructions, each in its place', () => {
  const instructions = (['punctuation:no_comma', 'startend:quotation', 'detectable_format:title'] as const).map(
    (each) => ({
      id: each,
      kwargs: {},
    }),
  )
  expect(ifEvalScore('"<<a>>"', instructions, context)).toMatchObject({
    promptLevelStrict: true,
    promptLevelLoose: true,
  })
  expect(ifEvalScore('Sure, so:\n"a"', instructions, context)).toEqual({
    promptLevelStrict: false,
    promptLevelLoose: false,
    instLevelStrict: [false, false, false],
    instLevelLoose: [true, true, false],
  })
})

it('a sign is counted where it stands for a letter, as in rows that ask for hashtags', () => {
  const kwargs = { letter: '#', let_frequency: 3, let_relation: 'at least' }
  const kept = (reply: string) =>
    ifEvalScore(reply, [{ id: 'keywords:letter_frequency', kwargs }], context).promptLevelStrict
  expect(kept('#one #two #three')).toBe(true)
  expect(kept('#one #two eeeee')).toBe(false)
})

it('instructions that no row may have are refused with everything that is wrong', () => {
  const wrong = [
    { id: 'keywords:all', kwargs: {} },
    { id: 'keywords:frequency', kwargs: { keyword: ' ', frequency: -1 } },
  ]
  expect(() => ifEvalScore('x', wrong, context)).toThrow(RangeError)
  expect(() => ifEvalScore('x', wrong, context)).toThrow(
    /"keywords:all".*keyword: must not be empty.*frequency.*relation/s,
  )
  expect(() => ifEvalScore('x', [], context)).toThrow('there must be an instruction')
})

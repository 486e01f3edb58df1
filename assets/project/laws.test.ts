/** Checks this project's environment and reward with the general laws for both. */
import { checkLaws, envLaws } from '@tandem-rl/testing'
import { message } from '@tandem-rl/text'
import fc from 'fast-check'
import * as T from 'tandem-rl'
import { data, TensorDict } from 'tandem-rl/tensordict'
import { expect, it } from 'vitest'
import { balls, questions } from './env.js'
import { reward } from './reward.js'

const answers = fc.constantFrom('<answer>7</answer>', '<answer>x</answer>', 'no answer')
const said = (text: string) => {
  const reply = message('assistant', text)
  return TensorDict({ history: TensorDict({ response: data([reply, reply]) }, [2]) }, [2])
}

checkLaws(
  it,
  envLaws(
    answers.map((text) => ({
      env: balls(questions(T.keyFromSeed(1), 'trained'))({ prompts: 2, repeats: 1, start: 0 }),
      act: () => said(text),
      steps: 1,
    })),
  ),
)

it('gives the full reward only for the right answer, whatever text precedes it', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 99 }),
      fc.integer({ min: 0, max: 99 }),
      fc.string(),
      (answer, right, noise) => {
        const earned = reward(`${noise.replaceAll('<', '')}<answer>${answer}</answer>`, String(right))
        expect(earned).toBe(answer === right ? 1 : 0.1)
      },
    ),
  )
})

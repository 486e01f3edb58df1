/** A token and the checkpoints: its probability over the run, what moved it, and forks from it. */
import { fill, h, table } from './dom.js'
import { number, percent, signed } from './format.js'
import {
  answerPlace,
  can,
  checkpointBefore,
  checkpointField,
  drawProbability,
  numberField,
  numeric,
} from './modelParts.js'
import { address } from './router.js'
import { tokenLabel, tokenText } from './transcript.js'
import { visible } from './visible.js'

/** @typedef {import('../src/modelProtocol.ts').ProbabilityRequest} ProbabilityRequest */
/** @typedef {import('../src/modelProtocol.ts').InfluenceRequest} InfluenceRequest */
/** @typedef {import('../src/modelProtocol.ts').InfluenceLine} InfluenceLine */
/** @typedef {import('../src/modelProtocol.ts').ForkRequest} ForkRequest */
/** @typedef {import('../src/modelProtocol.ts').ForkLine} ForkLine */

/** The token's probability at every checkpoint. */
const probabilityPart = (run, place, signal) => {
  const button = h('button', { class: 'primary' }, 'Why did this token move?')
  const answer = answerPlace({ run, request: 'probability', button }, signal)
  const ask = () => {
    const lines = []
    return answer.ask(place, (line) => {
      lines.push(line)
      fill(answer.result, drawProbability(lines, signal))
    })
  }
  button.addEventListener('click', ask)
  return { element: [h('div', { class: 'tools' }, button), answer.element], ask }
}

const influenceTable = (run, line) => {
  const rows = line.rollouts.map(({ id, text, advantage, influence, share }) => [
    numeric(signed(influence)),
    numeric(percent(share)),
    numeric(signed(advantage)),
    h(
      'div',
      { class: 'clip' },
      id === null ? visible(text) : h('a', { href: address(['run', run.id, 'rollout', id]) }, visible(text)),
    ),
  ])
  return [
    h(
      'p',
      { class: 'muted small' },
      `Rollouts of step ${line.step} (batch ${line.batch === 'saved' ? 'saved by the run' : 'sampled again'}), to first order: `,
      'the inner product of the gradient of this token and that of each rollout, with its advantage. ',
      `Normalization, clipping and the optimizer are left out. Linearity ${number(line.linearity)}; 1 is exact.`,
    ),
    table([...['Influence', 'Share', 'Advantage'].map(numeric), 'Rollout'], rows, 'Rollouts that moved the token most'),
  ]
}

/** The rollouts whose gradients moved the token most in the step after a checkpoint. */
const influencePart = (run, place, version, signal) => {
  const after = checkpointField(run, 'After', checkpointBefore(run, version))
  const button = h('button', { type: 'submit' }, 'Compute')
  const answer = answerPlace({ run, request: 'influence', button }, signal)
  const submit = (event) => {
    event.preventDefault()
    answer.ask({ ...place, checkpoint: after.value() }, (line) => fill(answer.result, influenceTable(run, line)))
  }
  return h(
    'details',
    { class: 'fork' },
    h('summary', {}, 'Which rollouts moved it?'),
    h('form', { class: 'tools', onsubmit: submit }, after.element, button),
    answer.element,
  )
}

const forkItem = (line) =>
  h(
    'li',
    {},
    h(
      'header',
      {},
      h('strong', {}, line.reward === null ? `Completion ${line.index + 1}` : `Reward ${number(line.reward)}`),
      line.stopReason === null ? null : h('span', { class: 'muted small' }, ` ${line.stopReason}`),
    ),
    line.turns.map((turn) =>
      h(
        'div',
        { class: 'text', dir: 'ltr' },
        turn.author === 'model' ? null : h('span', { class: 'muted small' }, `${turn.author}: `),
        tokenText(turn.text),
      ),
    ),
  )

const modeText = ({ mode, reason }) =>
  h(
    'li',
    { class: 'muted small' },
    mode === 'environment'
      ? "Played in the recipe's environment, with its rewards."
      : `Text only, without the environment and rewards: ${reason}.`,
  )

/** Other completions from the token on. */
const forkPart = (run, { place, token, version }, signal) => {
  const checkpoint = checkpointField(run, 'Checkpoint', checkpointBefore(run, version))
  const [count, tokens, temperature, seed] = [
    numberField('Completions', 4, { min: 1, max: 32 }),
    numberField('New tokens', 64, { min: 1, max: 4096 }),
    numberField('Temperature', 1, { min: 0, max: 4, step: 0.1 }),
    numberField('Seed', 1, { min: 0, max: 2 ** 31 }),
  ]
  const replacement = h('input', { placeholder: 'sample it' })
  const button = h('button', { class: 'primary', type: 'submit' }, 'Fork here')
  const answer = answerPlace({ run, request: 'fork', button }, signal)
  const submit = (event) => {
    event.preventDefault()
    const list = h('ol', { class: 'forks' })
    const body = {
      ...{ ...place, checkpoint: checkpoint.value(), replacement: replacement.value, count: count.value() },
      ...{ maxNewTokens: tokens.value(), temperature: temperature.value(), seed: seed.value() },
    }
    answer.ask(body, (line) => {
      if (list.parentNode === null) fill(answer.result, list)
      list.append(line.type === 'mode' ? modeText(line) : forkItem(line))
    })
  }
  return h(
    'details',
    { class: 'fork' },
    h('summary', {}, 'Fork the rollout here'),
    h('p', { class: 'muted small' }, 'Samples on from the text before ', h('code', {}, tokenLabel(token.text)), '.'),
    h(
      'form',
      { class: 'tools', onsubmit: submit },
      [checkpoint, count, tokens, temperature, seed].map(({ element }) => element),
      h('label', {}, 'Replace by', replacement),
      button,
    ),
    answer.element,
  )
}

/**
 * Makes what the checkpoints tell about a token, as far as the run can.
 *
 * @param {object} run
 * @param {{ place: { rollout: string, turn: number, token: number }, token: object, version: number | null }} chosen
 * @param {AbortSignal} signal
 */
export const tokenModel = (run, chosen, signal) => {
  const probability = can(run, 'probability') ? probabilityPart(run, chosen.place, signal) : null
  return {
    element: [
      probability?.element,
      can(run, 'influence') ? influencePart(run, chosen.place, chosen.version, signal) : null,
      can(run, 'fork') ? forkPart(run, chosen, signal) : null,
    ],
    ask: probability?.ask ?? (() => undefined),
  }
}

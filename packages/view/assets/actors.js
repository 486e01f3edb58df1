/** The sampler, the environment and the trainer of a run in time, and what each waits for. */
import { h, table } from './dom.js'
import { duration, percent } from './format.js'
import { axisTime, gantt } from './gantt.js'

/** @typedef {import('../src/protocol.ts').PhasesAnswer} PhasesAnswer */

const COLORS = {
  sampler: '--c0',
  environment: '--c2',
  reference: '--c6',
  trainer: '--c1',
  sync: '--c3',
  evaluation: '--c4',
}

/**
 * Lays out one step. The log has the seconds of each phase but not their order: sampling and the
 * environment alternate many times in a step, and are drawn one after the other.
 *
 * @param {PhasesAnswer} phases
 * @param {number} i index of the step
 */
const spansOf = ({ step, seconds, overlapSeconds, samplingSeconds }, i, start) => {
  const of = (name) => seconds[name]?.[i] ?? 0
  const [generation, environment, reference, training] = ['generation', 'environment', 'reference', 'training'].map(of)
  const [sync, evaluation] = ['weightSync', 'evaluation'].map(of)
  const spans = []
  const add = (actor, what, from, length, waitsFor) => {
    if (length > 0) spans.push({ actor, what, step: step[i], from: start + from, to: start + from + length, waitsFor })
  }
  const rewarded = generation + environment
  const learned = rewarded + reference
  const end = learned + training + sync
  const both = overlapSeconds?.[i] ?? null
  if (both === null) {
    add('sampler', 'sampling', 0, generation)
    add('sampler', 'waits', generation, environment, 'the environment')
    add('sampler', 'waits', rewarded, reference, 'the reference model')
    add('sampler', 'waits', learned, training, 'training')
    add('environment', 'environment and reward', generation, environment)
    add('trainer', 'waits', 0, generation, 'sampling')
    add('trainer', 'waits', generation, environment, 'the environment')
    add('trainer', 'reference model', rewarded, reference)
  } else {
    const alone = Math.min(learned, Math.max(0, (samplingSeconds?.[i] ?? 0) - both))
    const beside = Math.min(training, both)
    add('sampler', 'waits', 0, learned - alone, 'the trainer')
    add('sampler', 'sampling', learned - alone, alone)
    add('sampler', 'sampling', learned, beside)
    add('sampler', 'waits', learned + beside, training - beside, 'the trainer')
    add('trainer', 'waits', 0, learned, 'rollouts')
  }
  add('trainer', 'training', learned, training)
  add('trainer', 'weight sync', learned + training, sync)
  add('sampler', 'weight sync', learned + training, sync)
  add('sampler', 'evaluation', end, evaluation)
  add('trainer', 'waits', end, evaluation, 'evaluation')
  return { spans, length: end + evaluation }
}

const NAMES = { sampler: 'Sampler', environment: 'Environment', trainer: 'Trainer' }

const colorOf = ({ actor, what }) => {
  if (what === 'waits') return undefined
  if (what === 'weight sync') return COLORS.sync
  if (what === 'reference model') return COLORS.reference
  return what === 'evaluation' ? COLORS.evaluation : COLORS[actor]
}

const textOf = ({ step, what, waitsFor, from, to }) =>
  `step ${step}: ${what}${waitsFor === undefined ? '' : ` for ${waitsFor}`} ${duration(to - from)}`

/** The times of each actor: busy, and waiting by what it waits for. */
const waitTable = (spans, total) => {
  const rows = Object.entries(NAMES).flatMap(([actor, name]) => {
    const own = spans.filter((span) => span.actor === actor)
    const sums = new Map()
    for (const { what, waitsFor, from, to } of own) {
      const key = waitsFor === undefined ? what : `waits for ${waitsFor}`
      sums.set(key, (sums.get(key) ?? 0) + to - from)
    }
    return [...sums]
      .sort(([, a], [, b]) => b - a)
      .map(([what, time], i) => [
        i === 0 ? name : '',
        what,
        { value: duration(time), class: 'num' },
        { value: percent(time / total), class: 'num' },
      ])
  })
  const numeric = (value) => ({ value, class: 'num' })
  return table(['Who', 'Does', numeric('Time'), numeric('Share')], rows, 'Busy and waiting')
}

/**
 * Draws the lanes of some steps, and the table of what each actor waits for.
 *
 * @param {PhasesAnswer} phases
 * @param {readonly number[]} indices
 */
export const actorLanes = (phases, indices) => {
  const spans = []
  let start = 0
  for (const i of indices) {
    const own = spansOf(phases, i, start)
    spans.push(...own.spans)
    start += own.length
  }
  const lanes = Object.entries(NAMES).flatMap(([actor, name]) => {
    const bars = spans
      .filter((span) => span.actor === actor)
      .map((span) => ({ from: span.from, to: span.to, color: colorOf(span), text: textOf(span) }))
    return bars.length === 0 ? [] : [{ label: name, name, bars }]
  })
  const known = [
    ['Sampling', COLORS.sampler],
    ['Environment and reward', COLORS.environment],
    ['Reference model', COLORS.reference],
    ['Training', COLORS.trainer],
    ['Weight sync', COLORS.sync],
    ['Evaluation', COLORS.evaluation],
  ]
  const used = new Set(spans.map(colorOf))
  const legend = known
    .filter(([, color]) => used.has(color))
    .map(([label, color]) => h('li', {}, h('i', { style: { background: `var(${color})` } }), label))
  return h(
    'div',
    { class: 'stack' },
    h('ul', { class: 'legend' }, legend, h('li', {}, h('i', { class: 'waits' }), 'Waiting')),
    gantt({ title: 'Who works when', lanes, length: start, format: axisTime }),
    waitTable(spans, start),
  )
}

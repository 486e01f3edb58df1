/** Histograms whose bins are links, and stacked bars of phases. */
import { h } from './dom.js'
import { duration, number, whole } from './format.js'

/**
 * Makes a histogram. Each bin opens the rollouts in it.
 *
 * @param {object} options
 * @param {string} options.title
 * @param {{ edges: readonly number[], counts: readonly number[] }} options.histogram
 * @param {(low: number, high: number) => string} options.hrefOf
 * @param {readonly [number, number] | null} [options.selected]
 */
export const histogram = ({ title, histogram: { edges, counts }, hrefOf, selected = null }) => {
  const most = Math.max(1, ...counts)
  const isIn = (low, high) => selected !== null && low >= selected[0] - 1e-9 && high <= selected[1] + 1e-9
  const bins = counts.map((count, i) => {
    const [low, high] = [edges[i], edges[i + 1]]
    const label = `${title} ${number(low)} to ${number(high)}: ${whole(count)} rollouts`
    const bar = h('span', {
      class: 'column',
      style: { height: count === 0 ? '0' : `max(2px, ${(100 * count) / most}%)` },
    })
    const chosen = isIn(low, high) ? 'true' : null
    return h(
      'li',
      {},
      h('a', { href: hrefOf(low, high), title: label, 'aria-label': label, 'aria-current': chosen }, bar),
    )
  })
  return h(
    'figure',
    { class: 'histogram' },
    h('figcaption', {}, h('span', { class: 'name' }, title)),
    h('ol', { 'aria-label': `Histogram of ${title}` }, bins),
    counts.length === 0
      ? h('p', { class: 'muted small' }, 'No values')
      : h('p', { class: 'ends' }, h('span', {}, number(edges[0])), h('span', {}, number(edges[edges.length - 1]))),
  )
}

const PHASES = [
  ['generation', 'Sampling', '--c0'],
  ['environment', 'Environment and reward', '--c2'],
  ['reference', 'Reference model', '--c6'],
  ['training', 'Training', '--c1'],
  ['weightSync', 'Weight sync', '--c3'],
  ['evaluation', 'Evaluation', '--c4'],
  ['checkpoint', 'Checkpoint', '--c5'],
]

/**
 * Makes one row per step with the seconds of its phases, one after the other.
 *
 * @param {object} answer of `/phases`
 * @param {readonly number[]} indices of the steps to draw
 * @param {(step: number) => string} hrefOf
 */
export const timeline = ({ step, seconds, overlapSeconds }, indices, hrefOf) => {
  const known = PHASES.filter(([name]) => seconds[name]?.some((value) => value > 0))
  const totals = indices.map((i) => known.reduce((sum, [name]) => sum + (seconds[name][i] ?? 0), 0))
  const longest = Math.max(1e-9, ...totals)
  const share = (value) => `${((100 * value) / longest).toFixed(3)}%`
  const rows = indices.map((i, at) => {
    const parts = known.map(([name, label, color]) => {
      const value = seconds[name][i] ?? 0
      return h('span', {
        title: `${label}: ${duration(value)}`,
        style: { width: share(value), background: `var(${color})` },
      })
    })
    const overlap = overlapSeconds?.[i] ?? 0
    const mark =
      overlap > 0
        ? h('i', { title: `sampling during training: ${duration(overlap)}`, style: { width: share(overlap) } })
        : null
    const words = known.map(([name, label]) => `${label} ${duration(seconds[name][i] ?? 0)}`).join(', ')
    return h(
      'li',
      {},
      h('a', { class: 'num', href: hrefOf(step[i]) }, step[i]),
      h('span', { class: 'phases', role: 'img', 'aria-label': `Step ${step[i]}: ${words}` }, parts, mark),
      h('span', { class: 'num muted' }, duration(totals[at])),
    )
  })
  const legend = known.map(([, label, color]) => h('li', {}, h('i', { style: { background: `var(${color})` } }), label))
  return h('div', {}, h('ul', { class: 'legend' }, legend), h('ol', { class: 'timeline' }, rows))
}

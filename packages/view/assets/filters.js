/** The filters of rollouts, and how they stand in addresses. */
import { h } from './dom.js'
import { named } from './runFrame.js'

const NUMBERS = [
  ['minStep', 'Steps from'],
  ['maxStep', 'to'],
  ['minReward', 'Reward from'],
  ['maxReward', 'to'],
  ['minLength', 'Tokens from'],
  ['maxLength', 'to'],
  ['minAdvantage', 'Advantage from'],
  ['maxAdvantage', 'to'],
  ['minTurns', 'Turns from'],
]

const FLAGS = [
  ['truncated', 'Truncated'],
  ['failed', 'Failed'],
  ['toolErrors', 'Tool errors'],
]

const TEXTS = ['q', 'group', 'label', 'step', 'minPart', 'maxPart', 'sort', 'order']

const NAMES = new Set([...NUMBERS.map(([name]) => name), ...FLAGS.map(([name]) => name), ...TEXTS])

/**
 * Returns the filter in a query, without other fields.
 *
 * @param {Record<string, string>} query
 */
export const filterOf = (query) =>
  Object.fromEntries(Object.entries(query).filter(([name, value]) => NAMES.has(name) && value !== ''))

const SORTS = [
  ['', 'Order of the log'],
  ['reward', 'Reward'],
  ['length', 'Length'],
  ['advantage', 'Advantage'],
  ['turns', 'Turns'],
  ['toolCalls', 'Tool calls'],
  ['toolErrors', 'Tool errors'],
  ['step', 'Step'],
]

const select = (label, options, value, onchange) =>
  h(
    'label',
    {},
    label,
    h(
      'select',
      { onchange: (event) => onchange(event.target.value) },
      options.map(([key, name]) => h('option', { value: key, selected: key === value }, name)),
    ),
  )

const WAIT = 250

/**
 * Makes the filter fields of a list of rollouts.
 *
 * @param {object} options
 * @param {object} options.run
 * @param {() => Record<string, string>} options.filter
 * @param {(change: Record<string, string | undefined>) => void} options.change
 * @param {Element} options.chips of the filters that are set
 */
export const filterFields = ({ run, filter, change, chips }) => {
  const now = filter()
  let timer = 0
  const later = (fields) => {
    clearTimeout(timer)
    timer = setTimeout(() => change(fields), WAIT)
  }
  const search = h('input', {
    type: 'search',
    class: 'grow',
    placeholder: 'Search in texts',
    'aria-label': 'Search in texts',
    value: now.q ?? '',
    oninput: (event) => later({ q: event.target.value }),
  })
  const numeric = ([name, label]) =>
    h(
      'label',
      {},
      label,
      h('input', {
        type: 'number',
        step: 'any',
        value: now[name] ?? '',
        oninput: (event) => later({ [name]: event.target.value }),
      }),
    )
  const flag = ([name, label]) =>
    h(
      'button',
      {
        'aria-pressed': now[name] === 'true' ? 'true' : 'false',
        onclick: () => change({ [name]: filter()[name] === 'true' ? undefined : 'true' }, true),
      },
      label,
    )
  const labels =
    run.labels.length === 0
      ? null
      : select('Label', [['', 'any'], ...run.labels.map((each) => [each, named(each)])], now.label ?? '', (label) =>
          change({ label }),
        )
  const sorts = [...SORTS, ...run.partNames.map((name) => [`part.${name}`, named(`Part: ${name}`)])]
  const isDown = (now.order ?? 'asc') === 'desc'
  const parts = run.partNames.length === 0 ? null : partFields(run.partNames, now, later)
  const open = [...NUMBERS.map(([name]) => name), 'minPart', 'maxPart'].some((name) => now[name] !== undefined)
  return {
    search,
    element: h(
      'div',
      { class: 'filters' },
      h(
        'div',
        { class: 'tools' },
        search,
        FLAGS.map(flag),
        labels,
        select('Sort by', sorts, now.sort ?? '', (sort) =>
          change({ sort, order: sort === '' ? undefined : filter().order }, true),
        ),
        h(
          'button',
          {
            'aria-label': isDown ? 'Descending' : 'Ascending',
            title: 'Reverse the order',
            onclick: () => change({ order: isDown ? 'asc' : 'desc' }, true),
          },
          isDown ? '↓' : '↑',
        ),
      ),
      h(
        'div',
        { class: 'ranges' },
        h('details', { open }, h('summary', {}, 'Ranges'), h('div', { class: 'tools' }, NUMBERS.map(numeric), parts)),
        chips,
      ),
    ),
  }
}

/** Fields for the least and the largest value of one part of the reward. */
const partFields = (names, now, later) => {
  const [name, least] = splitPart(now.minPart)
  const [other, most] = splitPart(now.maxPart)
  const chosen = h(
    'select',
    { 'aria-label': 'Part of the reward' },
    names.map((each) => h('option', { value: each, selected: each === (name ?? other) }, named(each))),
  )
  const field = (label, value) => h('input', { type: 'number', step: 'any', 'aria-label': label, value: value ?? '' })
  const [low, high] = [field('Part from', least), field('Part to', most)]
  const changed = () =>
    later({
      minPart: low.value === '' ? undefined : `${chosen.value}:${low.value}`,
      maxPart: high.value === '' ? undefined : `${chosen.value}:${high.value}`,
    })
  for (const each of [chosen, low, high]) each.addEventListener('input', changed)
  return h('span', { class: 'tools' }, h('label', {}, 'Part', chosen), low, h('span', { class: 'muted' }, 'to'), high)
}

/** @param {string | undefined} text such as `success:0.5` */
const splitPart = (text) =>
  text === undefined ? [] : [text.slice(0, text.lastIndexOf(':')), text.slice(text.lastIndexOf(':') + 1)]

/**
 * Makes a chip for each filter that is set, which removes it.
 *
 * @param {Record<string, string>} filter
 * @param {(change: Record<string, undefined>) => void} change
 */
export const filterChips = (filter, change) => {
  const set = Object.entries(filter).filter(([name]) => name !== 'sort' && name !== 'order')
  const labels = Object.fromEntries([...NUMBERS, ...FLAGS])
  const label = (name) =>
    name.startsWith('max')
      ? name
      : (labels[name] ?? { q: 'Text', group: 'Group', label: 'Label', step: 'Step', minPart: 'Part from' }[name])
  return h(
    'span',
    { class: 'chips' },
    set.map(([name, value]) =>
      h(
        'button',
        {
          class: 'chip',
          'aria-label': `Remove the filter ${label(name)} ${value}`,
          onclick: () => change({ [name]: undefined }, true),
        },
        label(name),
        ' ',
        named(value),
        ' ×',
      ),
    ),
    set.length > 1
      ? h(
          'button',
          { class: 'quiet', onclick: () => change(Object.fromEntries(set.map(([name]) => [name, undefined])), true) },
          'Clear all',
        )
      : null,
  )
}

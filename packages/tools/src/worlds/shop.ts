/**
 * A small web shop with graded rewards.
 *
 * It follows WebShop (Yao et al. 2022): the policy searches, opens a product, chooses options and
 * buys, and the reward grades the purchase against the goal. It differs from WebShop in these
 * points. The catalogue is small and drawn from a key, instead of 1.18 million products of a real
 * shop. Goals are written from product data by a fixed sentence, instead of by people. Product
 * types either match or do not, where WebShop compares titles and categories in degrees. There are
 * no pictures, no pages of reviews, and one page for each product. Search ranks by the number of
 * matching words.
 */

import { checkOptions, child, type Key, keyFromSeed, permutation, uniformInteger } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { endlessTasks, type TaskSource } from 'tandem-rl'
import { z } from 'zod'
import { SHOP_CATALOGUE_OPTIONS } from '../optionKinds.js'
import type { TextWorld, WorldView } from './textWorld.js'

/** A product of the shop. */
export interface ShopProduct {
  readonly id: string
  /** The kind of thing, such as `mug`. */
  readonly type: string
  /** Words that describe it, such as `wooden`. */
  readonly attributes: readonly string[]
  /** The choices that a buyer has, by name: `{ color: ['red', 'blue'] }`. */
  readonly options: Readonly<Record<string, readonly string[]>>
  /** In dollars. */
  readonly price: number
}

/** The wishes of a buyer. */
export interface ShopGoal {
  readonly type: string
  readonly attributes: readonly string[]
  readonly options: Readonly<Record<string, string>>
  /** The highest price, in dollars. */
  readonly maxPrice: number
}

/** A task of the shop. */
export interface ShopTask extends Task {
  readonly goal: ShopGoal
}

/** The state of a visit: the page, and the options chosen on it. */
export interface ShopState {
  readonly goal: ShopGoal
  readonly page:
    | { readonly _tag: 'Search' }
    | { readonly _tag: 'Results'; readonly ids: readonly string[] }
    | { readonly _tag: 'Product'; readonly id: string; readonly chosen: Readonly<Record<string, string>> }
    | { readonly _tag: 'Bought'; readonly score: number }
}

const TYPES = ['mug', 'lamp', 'shirt', 'chair', 'clock', 'bag', 'pen', 'plate']
const ATTRIBUTES = ['wooden', 'small', 'heavy', 'round', 'warm', 'cheap', 'modern', 'soft']
const OPTIONS = { color: ['red', 'blue', 'green'], size: ['S', 'M', 'L'] } as const

export interface ShopOptions {
  /** Fixes the catalogue. Default: seed 0. */
  readonly key?: Key
  /** Kinds of things, up to 8. Default 4. */
  readonly types?: number
  /** Products of each kind, up to 8. Default 3. */
  readonly products?: number
}

const sized = (name: string, value: number): number => {
  if (Number.isInteger(value) && value >= 1 && value <= TYPES.length) return value
  throw new RangeError(`shopCatalogue: ${name} must be an integer from 1 to ${TYPES.length}, got ${value}`)
}

/**
 * Draws the products of a shop from a key. Products of one kind differ in their attribute.
 *
 * Errors   throws RangeError for unknown options and for counts that are not from 1 to 8.
 *
 * @example
 * shopCatalogue({ types: 1, products: 1 }).length // 1
 */
export const shopCatalogue = (options: ShopOptions = {}): readonly ShopProduct[] => {
  checkOptions('shopCatalogue', options, SHOP_CATALOGUE_OPTIONS)
  const { key = keyFromSeed(0) } = options
  const [types, products] = [sized('types', options.types ?? 4), sized('products', options.products ?? 3)]
  return TYPES.slice(0, types).flatMap((type, t) => {
    const own = child(key, type)
    const order = permutation(own, ATTRIBUTES.length)
    return Array.from(
      { length: products },
      (_, i): ShopProduct => ({
        id: `B${t * products + i + 10}`,
        type,
        attributes: [ATTRIBUTES[order[i]!]!],
        options: OPTIONS,
        price: 10 + uniformInteger(own, 40, i + 1),
      }),
    )
  })
}

const goalSchema = z.object({
  type: z.string(),
  attributes: z.array(z.string()),
  options: z.record(z.string(), z.string()),
  maxPrice: z.number(),
})

/** Returns the words of a text in lower case. */
const wordsOf = (text: string): readonly string[] => text.toLowerCase().match(/[a-z0-9]+/g) ?? []

const titleOf = ({ attributes, type }: Pick<ShopProduct, 'attributes' | 'type'>): string =>
  [...attributes, type].join(' ')

/** Most products on a page of results. */
const PAGE = 5

/**
 * Ranks products by the number of query words in their titles; products without one are left out.
 */
const found = (products: readonly ShopProduct[], query: string): readonly string[] => {
  const words = new Set(wordsOf(query))
  const ranked = products
    .map((product) => ({ id: product.id, hits: wordsOf(titleOf(product)).filter((word) => words.has(word)).length }))
    .filter(({ hits }) => hits > 0)
  return ranked
    .sort((a, b) => b.hits - a.hits)
    .slice(0, PAGE)
    .map(({ id }) => id)
}

/**
 * Grades a purchase, as WebShop does: the share of matching attributes, options and price, and 0
 * for a thing of another kind.
 *
 * $$r = [\text{type}]\,\frac{|A \cap A^*| + |O \cap O^*| + [p \le p^*]}{|A^*| + |O^*| + 1}$$
 *
 * Source   WebShop (Yao et al. 2022), equation 1, with a type that matches or does not.
 *
 * @example
 * shopScore({ type: 'mug', attributes: [], options: {}, price: 9 }, {}, { type: 'mug', attributes: [], options: {}, maxPrice: 10 }) // 1
 */
export const shopScore = (
  product: Omit<ShopProduct, 'id'>,
  chosen: Readonly<Record<string, string>>,
  goal: ShopGoal,
): number => {
  if (product.type !== goal.type) return 0
  const attributes = goal.attributes.filter((each) => product.attributes.includes(each)).length
  const wanted = Object.entries(goal.options)
  const options = wanted.filter(([name, value]) => Object.hasOwn(chosen, name) && chosen[name] === value).length
  const price = product.price <= goal.maxPrice ? 1 : 0
  return (attributes + options + price) / (goal.attributes.length + wanted.length + 1)
}

const line = (product: ShopProduct): string => `[${product.id}] ${titleOf(product)} $${product.price}`

/** Returns the page of a state as text, and the actions on it. */
const viewOf = (products: ReadonlyMap<string, ShopProduct>, state: ShopState, note = ''): WorldView<ShopState> => {
  const view = (text: string, actions: readonly string[], score = 0, end: 'open' | 'over' = 'open') => ({
    state,
    observation: note === '' ? text : `${note}\n${text}`,
    actions,
    score,
    done: end === 'over',
  })
  const { page } = state
  switch (page._tag) {
    case 'Search':
      return view('Shop. Use search[words].', ['search[words]'])
    case 'Results': {
      const lines = page.ids.map((id) => line(products.get(id)!)) // ids come from `found`
      const actions = [...page.ids.map((id) => `click[${id}]`), 'search[words]']
      return view(lines.length === 0 ? 'No results. Use search[words].' : lines.join('\n'), actions)
    }
    case 'Product': {
      const product = products.get(page.id)!
      const choices = Object.entries(product.options).map(
        ([name, values]) =>
          `${name}: ${values.map((value) => (page.chosen[name] === value ? `*${value}*` : value)).join(' ')}`,
      )
      const values = Object.values(product.options).flat()
      const actions = [...values.map((value) => `click[${value}]`), 'click[buy]', 'click[back]']
      return view([line(product), ...choices, 'Use click[option], click[buy] or click[back].'].join('\n'), actions)
    }
    case 'Bought':
      return view(`Bought. Score: ${page.score.toFixed(2)}`, [], page.score, 'over')
  }
}

/** Returns the page after a click, or undefined if there is nothing to click. */
const clicked = (
  products: ReadonlyMap<string, ShopProduct>,
  { page, goal }: ShopState,
  target: string,
): ShopState['page'] | undefined => {
  if (page._tag === 'Results') {
    const id = page.ids.find((each) => each.toLowerCase() === target.toLowerCase())
    return id === undefined ? undefined : { _tag: 'Product', id, chosen: {} }
  }
  if (page._tag !== 'Product') return undefined
  if (target === 'back') return { _tag: 'Search' }
  const product = products.get(page.id)!
  if (target === 'buy') return { _tag: 'Bought', score: shopScore(product, page.chosen, goal) }
  const choice = Object.entries(product.options).flatMap(([name, values]) =>
    values.filter((value) => value.toLowerCase() === target.toLowerCase()).map((value) => [name, value] as const),
  )[0]
  return choice === undefined ? undefined : { ...page, chosen: { ...page.chosen, [choice[0]]: choice[1] } }
}

/** Longest action that is read, in UTF-16 units. */
const LONGEST = 200

/** Reads `search[words]` or `click[target]`. */
const actionOf = (action: string): { readonly name: string; readonly target: string } | undefined => {
  const text = action.slice(0, LONGEST).trim()
  const open = text.indexOf('[')
  if (open < 0 || !text.endsWith(']')) return undefined
  return { name: text.slice(0, open).trim().toLowerCase(), target: text.slice(open + 1, -1).trim() }
}

/**
 * Makes a shop as a text world. Rows give it a goal (`shopTasks`). The actions are `search[words]`
 * and `click[target]`, where the target is a product id, an option, `buy` or `back`.
 *
 * Source   WebShop (Yao et al. 2022); the header of this file lists the differences.
 *
 * @example
 * shopWorld().name // 'shop'
 */
export const shopWorld = (catalogue: readonly ShopProduct[] = shopCatalogue()): TextWorld<ShopState> => {
  const products = new Map(catalogue.map((product) => [product.id, product]))
  return {
    name: 'shop',
    description: 'Visits the shop. Actions: search[words], click[product id], click[option], click[buy], click[back].',
    start: (args) => {
      const goal = goalSchema.safeParse(args)
      return goal.success
        ? E.right(viewOf(products, { goal: goal.data, page: { _tag: 'Search' } }))
        : E.left(z.prettifyError(goal.error))
    },
    act: (state, action) => {
      if (state.page._tag === 'Bought') return viewOf(products, state)
      const chosenText = actionOf(action)
      const page =
        chosenText?.name === 'search'
          ? ({ _tag: 'Results', ids: found(catalogue, chosenText.target) } as const)
          : chosenText?.name === 'click'
            ? clicked(products, state, chosenText.target)
            : undefined
      return page === undefined
        ? viewOf(products, state, 'That is not possible here.')
        : viewOf(products, { ...state, page })
    },
  }
}

/** The sentence that asks for a goal. */
const requestedFor = ({ type, attributes, options, maxPrice }: ShopGoal): string =>
  `Buy a ${[...attributes, type].join(' ')}, ${Object.entries(options)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')}, for at most $${maxPrice}.`

/**
 * Makes endless tasks for a shop. Each asks for one product with its options, so every task has a
 * purchase of score 1. The source is pure: equal keys and indices give equal tasks.
 *
 * Errors   `at` throws RangeError for a negative or fractional index.
 *
 * @example
 * orThrow(shopTasks(keyFromSeed(1)).at(0)).query.startsWith('Buy a ') // true
 */
export const shopTasks = (key: Key, catalogue: readonly ShopProduct[] = shopCatalogue()): TaskSource<ShopTask> =>
  endlessTasks('shop', (index) => {
    const own = child(key, index)
    const product = catalogue[uniformInteger(own, catalogue.length)]!
    const options = Object.entries(product.options).map(
      ([name, values], i) => [name, values[uniformInteger(own, values.length, i + 1)]!] as const,
    )
    const { type, attributes, price } = product
    const goal = { type, attributes, options: Object.fromEntries(options), maxPrice: price + 5 }
    return { id: `shop-${index}`, query: requestedFor(goal), answer: product.id, goal }
  })

/**
 * Returns the actions that solve a task with a score of 1, for supervised warm starts and tests.
 *
 * @example
 * shopSolution(orThrow(shopTasks(keyFromSeed(1)).at(0))).at(-1) // 'click[buy]'
 */
export const shopSolution = ({ goal, answer }: ShopTask): readonly string[] => [
  `search[${titleOf(goal)}]`,
  `click[${answer}]`,
  ...Object.values(goal.options).map((value) => `click[${value}]`),
  'click[buy]',
]

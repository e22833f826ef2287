// The pages of the console. Each is loaded when it is first opened.

import Boxes from '@lucide/svelte/icons/boxes'
import Network from '@lucide/svelte/icons/network'
import SquarePlus from '@lucide/svelte/icons/square-plus'
import SquareTerminal from '@lucide/svelte/icons/square-terminal'
import type { Component } from 'svelte'

export interface Page {
  /** the first part of the address: #/tables */
  name: string
  title: string
  icon: Component
  /** the call that one must be allowed to make; without it the page is not offered */
  needs?: string
  /** the component; it may take `route`, see lib/router.svelte.ts */
  load: () => Promise<{ default: Component<any> }>
}

export const PAGES: Page[] = [
  {
    name: 'query',
    title: 'Query',
    icon: SquareTerminal,
    needs: 'POST /sql',
    load: () => import('./pages/query/QueryPage.svelte'),
  },
  {
    name: 'tables',
    title: 'Tables',
    icon: Boxes,
    needs: 'GET /tables',
    load: () => import('./pages/tables/TablesPage.svelte'),
  },
  {
    name: 'new-table',
    title: 'New table',
    icon: SquarePlus,
    needs: 'POST /tables',
    load: () => import('./pages/newtable/NewTablePage.svelte'),
  },
  {
    name: 'cluster',
    title: 'Cluster',
    icon: Network,
    needs: 'GET /instances',
    load: () => import('./pages/cluster/ClusterPage.svelte'),
  },
]

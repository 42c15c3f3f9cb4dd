# shellcheck shell=bash
# Variables are shared with the script that sources this.
# shellcheck disable=SC2034
# The machines that tests/vm/run.sh emulates.

topologies=(two-nodes one-node memoryless-node cpuless-node sparse-ids)

# topology NAME: sets guest_nodes, guest_memory (MiB), guest_machine (QEMU's
# arguments) and guest_kernel (the kernel's). Every node with memory has a 1G
# page and at least 40 pages of 2M, one of them 520: a GiB to lease. That with the
# lowest addresses has 3 GiB: the kernel takes some of its second one.
#
# Linux numbers nodes as it meets them in the ACPI tables, where QEMU lists
# those with CPUs first: here the order of the nodes is that order, so that both
# call a node the same. Distances are such that the nearest node is not the one
# with the lowest number.
topology() {
  guest_kernel=()
  case $1 in
    one-node)
      guest_nodes="node 0: 2 CPUs, 3 GiB"
      numa_smp 2
      numa_node 0 3072 0-1
      numa_pages "0:520" "0:1"
      ;;
    two-nodes)
      guest_nodes="nodes 0 and 1: a CPU and 3 GiB each"
      numa_smp 2
      numa_node 0 3072 0
      numa_node 1 3072 1
      numa_pages "0:520,1:40" "0:1,1:1"
      ;;
    memoryless-node)
      guest_nodes="node 0: a CPU, no memory, next to 2; 1 and 2: a CPU and memory"
      numa_smp 3
      numa_node 0 0 0
      numa_node 1 3072 1
      numa_node 2 2048 2
      numa_distances 0,1,40 0,2,15 1,2,20
      numa_pages "1:520,2:40" "1:1,2:1"
      ;;
    cpuless-node)
      guest_nodes="nodes 0 and 1: a CPU and memory; 2: memory, no CPU, next to 1"
      numa_smp 2
      numa_node 0 3072 0
      numa_node 1 2048 1
      numa_node 2 2048 ""
      numa_distances 0,1,20 0,2,40 1,2,15
      numa_pages "0:520,1:40,2:40" "0:1,1:1,2:1"
      ;;
    sparse-ids)
      # QEMU wants its nodes numbered without a gap. A node 1 that has nothing
      # but a CPU that the kernel is told not to see is possible and never
      # online.
      guest_nodes="nodes 0 and 2: a CPU and memory; there is no node 1"
      numa_smp 3
      numa_node 0 3072 0
      numa_node 1 0 1
      numa_node 2 2048 2
      numa_pages "0:520,2:40" "0:1,2:1"
      guest_kernel+=(disable_cpu_apicid=1)
      ;;
    *)
      return 1
      ;;
  esac
  guest_machine+=(-m "${guest_memory}M")
}

# Each CPU in a socket of its own, as its node is.
numa_smp() { # CPUS
  guest_memory=0
  guest_machine=(-smp "$1,sockets=$1,cores=1,threads=1")
}

numa_node() { # ID MIB CPUS; no memory: 0, no CPUs: ""
  local node=node,nodeid=$1
  [[ -z $3 ]] || node+=,cpus=$3
  if (($2 > 0)); then
    guest_machine+=(-object "memory-backend-ram,id=memory$1,size=$2M")
    node+=,memdev=memory$1
    guest_memory=$((guest_memory + $2))
  fi
  guest_machine+=(-numa "$node")
}

numa_distances() { # FROM,TO,DISTANCE...
  local from to distance
  for distance in "$@"; do
    IFS=, read -r from to distance <<<"$distance"
    guest_machine+=(-numa "dist,src=$from,dst=$to,val=$distance")
  done
}

numa_pages() { # NODE:COUNT,... of 2M and of 1G
  guest_kernel+=(hugepagesz=1G "hugepages=$2" hugepagesz=2M "hugepages=$1")
}

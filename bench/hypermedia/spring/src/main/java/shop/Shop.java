package shop;

import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.Id;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.Table;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.Pageable;
import org.springframework.data.repository.query.Param;
import org.springframework.data.jpa.repository.JpaRepository;
import org.springframework.data.rest.core.annotation.RepositoryRestResource;

/** A shop with Spring Data REST, as its guides write one: customers, their orders, items and products. */
@SpringBootApplication
public class Shop {
    public static void main(String[] arguments) {
        SpringApplication.run(Shop.class, arguments);
    }

    @Bean
    CommandLineRunner fill(Customers customers, Orders orders, OrderItems items, Products products) {
        return arguments -> {
            List<Product> known = new ArrayList<>();
            for (String name : List.of("Pear", "Plum", "Quince")) {
                known.add(products.save(new Product(name)));
            }
            int number = 1000;
            for (String name : List.of("Ada Lind", "Bo Ek", "Cleo Dahl")) {
                Customer customer = customers.save(new Customer(name));
                // The last one has none.
                for (int count = 0; count < 5 && !name.startsWith("Cleo"); count++) {
                    Order order = orders.save(new Order(++number, count % 2 == 0 ? "open" : "shipped", customer));
                    for (int item = 0; item < count % 3; item++) {
                        items.save(new OrderItem(item + 1, order, known.get((count + item) % 3)));
                    }
                }
            }
        };
    }
}

@Entity
class Customer {
    @Id @GeneratedValue public Long id;
    public String name;
    @OneToMany(mappedBy = "customer") public List<Order> orders;

    Customer() {}

    Customer(String name) {
        this.name = name;
    }
}

@Entity
@Table(name = "orders")
class Order {
    @Id @GeneratedValue public Long id;
    public int number;
    public String state;
    public BigDecimal total = new BigDecimal("49.90");
    @ManyToOne public Customer customer;
    @OneToMany(mappedBy = "order") public List<OrderItem> items;

    Order() {}

    Order(int number, String state, Customer customer) {
        this.number = number;
        this.state = state;
        this.customer = customer;
    }
}

@Entity
class OrderItem {
    @Id @GeneratedValue public Long id;
    public int quantity;
    @ManyToOne public Order order;
    @ManyToOne public Product product;

    OrderItem() {}

    OrderItem(int quantity, Order order, Product product) {
        this.quantity = quantity;
        this.order = order;
        this.product = product;
    }
}

@Entity
class Product {
    @Id @GeneratedValue public Long id;
    public String name;

    Product() {}

    Product(String name) {
        this.name = name;
    }
}

@RepositoryRestResource
interface Customers extends JpaRepository<Customer, Long> {}

@RepositoryRestResource
interface Orders extends JpaRepository<Order, Long> {
    Page<Order> findByState(@Param("state") String state, Pageable page);
}

@RepositoryRestResource
interface OrderItems extends JpaRepository<OrderItem, Long> {}

@RepositoryRestResource
interface Products extends JpaRepository<Product, Long> {}
